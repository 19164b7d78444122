"""The page that compares the clients with kafka-python's and confluent-kafka's, name by name.

``scripts/generate`` writes it. The names come from the two libraries.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient as ConfluentAdmin

from spark_eos import Admin, Consumer, Producer
from spark_eos.clients.other_names import ADMIN_CALLS, CONSUMER_CALLS, NO_CALLS, PRODUCER_CALLS
from spark_eos.config.consumer import CONSUMER
from spark_eos.config.kafka.names import kafka_name
from spark_eos.config.option import Table
from spark_eos.config.producer import PRODUCER
from spark_eos.config.values import Fixed
from spark_eos.kafka import KafkaAdminClient as OurAdminClient

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # It reads its own files by a call that Python deprecates.
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

PAGE = Path(__file__).parents[2] / "docs/reference/clients-table.md"

OTHER = {
    ("kafka-python", "KafkaAdminClient"): {
        name: here for name, here in ADMIN_CALLS.items() if name != "describe_cluster"
    },
    ("confluent-kafka", "Producer"): PRODUCER_CALLS,
    ("confluent-kafka", "Consumer"): CONSUMER_CALLS,
    ("confluent-kafka", "AdminClient"): ADMIN_CALLS,
}
"""Calls that have another name here."""

NONE = {**NO_CALLS, "describe_cluster": NO_CALLS["cluster_id"]}

NO_SETTING = {
    "default.offset.commit.callback": "not there: give `commit_async` a callback",
}

CLASSES = (
    ("kafka-python", "KafkaProducer", KafkaProducer, Producer),
    ("kafka-python", "KafkaConsumer", KafkaConsumer, Consumer),
    ("kafka-python", "KafkaAdminClient", KafkaAdminClient, Admin),
    ("confluent-kafka", "Producer", ConfluentProducer, Producer),
    ("confluent-kafka", "Consumer", ConfluentConsumer, Consumer),
    ("confluent-kafka", "AdminClient", ConfluentAdmin, Admin),
)
SETTINGS = (("KafkaProducer", KafkaProducer, PRODUCER), ("KafkaConsumer", KafkaConsumer, CONSUMER))

HEAD = """# The Python clients, name by name

Made by a test that imports kafka-python 3 and confluent-kafka 2 and lists what is public in them. *same* means the
name; where the two libraries differ, arguments and results are kafka-python's. `spark_eos.kafka` has the classes of
kafka-python by their own names: [Coming from kafka-python](../guide/python-clients.md).

What differs under the same name in `spark_eos.Consumer`: `poll` returns a list of records, whose `items()` is what
kafka-python's dict has (`spark_eos.kafka.KafkaConsumer` returns the dict); `subscribe` needs `group.id`
(`spark_eos.kafka.KafkaConsumer` without one reads all partitions). `timeout_ms` of `commit`, `committed`, `position`
and the calls that look up offsets is there in `spark_eos.kafka.KafkaConsumer` alone. Calls of the admin client return
when the entry is durable: there are no futures of confluent-kafka's, and no `timeout_ms`. confluent-kafka counts in
seconds and hands out one `Message`, whose fields are methods; here times of consumers are milliseconds, and fields
are attributes.
"""


def public(kind: type) -> list[str]:
    """The names of a class's public calls."""
    return sorted(name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name)))


def of_call(library: str, kind: str, name: str, ours: type) -> str | None:
    """What stands for a call here; None if the page does not say it yet."""
    if hasattr(ours, name) and (library, name) != ("confluent-kafka", "list_topics"):
        return "same"
    other = OTHER.get((library, kind), {}).get(name)
    if other is not None:
        both = " (same name in `spark_eos.kafka`)" if ours is Admin and _in_facade(library, name) else ""
        return f"other name: `{other}`{both}"
    if hasattr(ours, name):
        return "same"
    return NONE.get(name)


def _in_facade(library: str, name: str) -> bool:
    return library == "kafka-python" and hasattr(OurAdminClient, name)


def of_setting(name: str, table: Table) -> str | None:
    """What stands for a setting here; None if the page does not say it yet."""
    if name == "bootstrap.servers":
        return "other name: the first argument, the log's folder or URL; in `spark_eos.kafka` the same name"
    if name in table:
        kind = table[name].type
        return f"same: only `{kind.spellings[0]}`" if isinstance(kind, Fixed) else "same"
    if name in NO_SETTING:
        return NO_SETTING[name]
    found = kafka_name(name, table)
    if found is None:
        return None
    return f"{'not needed' if found.is_transport else 'not there'}: {found.why}"


def rows() -> list[tuple[str, str, str | None]]:
    """Section, name and answer of each line."""
    found = [
        (f"{library}: {kind}", name, of_call(library, kind, name, ours))
        for library, kind, theirs, ours in CLASSES
        for name in public(theirs)
    ]
    found += [
        (f"kafka-python: settings of {kind}", name, of_setting(name.replace("_", "."), table))
        for kind, theirs, table in SETTINGS
        for name in sorted(theirs.DEFAULT_CONFIG)
    ]
    return found


def page(_text: str = "") -> str:
    """The whole page."""
    lines, section = [HEAD], ""
    for title, name, answer in rows():
        if title != section:
            section = title
            lines.append(f"\n## {title}\n\n| name | here |\n|---|---|")
        lines.append(f"| `{name}` | {answer} |")
    return "\n".join(lines) + "\n"
