"""Calls of kafka-python and confluent-kafka that have another name here, or none: the error of such a call says so.

docs/reference/clients-table.md is made from these tables.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import ClassVar, NoReturn

PRODUCER_CALLS = {
    "produce": "send",
    "produce_batch": "send_arrow",
    "list_topics": "partitions_for",
}
CONSUMER_CALLS = {
    "consume": "poll",
    "consumer_group_metadata": "group_metadata",
    "get_watermark_offsets": "end_offsets",
    "incremental_assign": "assign",
    "incremental_unassign": "assign",
    "list_topics": "topics",
    "memberid": "group_metadata",
    "store_offsets": "commit",
    "unassign": "unsubscribe",
}
ADMIN_CALLS = {
    "alter_consumer_group_offsets": "alter_group_offsets",
    "delete_consumer_groups": "delete_group",
    "delete_groups": "delete_group",
    "describe_cluster": "describe_log",
    "describe_consumer_groups": "describe_groups",
    "describe_topic_partitions": "describe_topics",
    "describe_transactions": "describe_transaction",
    "incremental_alter_configs": "alter_configs",
    "list_consumer_group_offsets": "list_group_offsets",
    "list_consumer_groups": "list_groups",
    "list_partition_offsets": "list_offsets",
    "remove_group_members": "remove_members_from_group",
    "reset_configs": "alter_configs",
}
"""Calls that have another name here."""

_BROKER = "not needed: there is no broker"
_SECURITY = "not there: the store decides who may read and write"
_REPLICAS = "not needed: the store replicates"

NO_CALLS = {
    **dict.fromkeys(("bootstrap", "bootstrap_connected", "cluster_id"), _BROKER),
    **dict.fromkeys(
        ("api_versions", "get_broker_version_data", "describe_features", "update_features"), _BROKER
    ),
    **dict.fromkeys(("describe_metadata_quorum", "max_usable_produce_magic"), _BROKER),
    **dict.fromkeys(
        (
            *("alter_partition_reassignments", "list_partition_reassignments", "elect_leaders"),
            *("alter_replica_log_dirs", "describe_log_dirs"),
        ),
        _REPLICAS,
    ),
    **dict.fromkeys(
        (
            *("create_acls", "delete_acls", "describe_acls", "set_sasl_credentials"),
            *("alter_user_scram_credentials", "describe_user_scram_credentials"),
        ),
        _SECURITY,
    ),
    "list_config_resources": "not needed: the resources are the topics (`list_topics`) and the log",
    "wait_for_topics": "not needed: a topic is there when `create_topics` returns",
    "poll": "not needed: the thread that sends calls `on_delivery`",
    "purge": "not there: `close(timeout=0)` drops what waits",
}
"""Calls that are not here, and why."""


class KafkasCalls:
    """A client of which a call that it does not have is an `AttributeError` that names the one to use."""

    _other_names: ClassVar[Mapping[str, str]] = {}

    def __getattr__(self, name: str) -> NoReturn:
        kind = type(self)
        text = f"{kind.__name__!r} object has no attribute {name!r}"
        method = getattr(kind, self._other_names.get(name, ""), None)
        if method is not None:
            parameters = inspect.signature(method).parameters.values()
            shown = ", ".join(
                str(parameter.replace(annotation=inspect.Parameter.empty))
                for parameter in parameters
                if parameter.name != "self"
            )
            text = f"{text}: call {method.__name__}({shown})"
        elif name in NO_CALLS:
            text = f"{text}, which is {NO_CALLS[name]}"
        raise AttributeError(text, name=name, obj=self)
