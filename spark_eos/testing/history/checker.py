"""Checks a history for every anomaly that Jepsen looks for in Kafka, and for torn transactions and loss.

What is checked: `spark_eos.testing.history.report.ANOMALIES`. All of it is forbidden; only G0, G1c, int-send-skip and
torn are allowed where they come from a streamed transaction. Every anomaly that is reported as forbidden is one: where
a history leaves it open whether something is wrong (an offset that was never learned, an outcome that is not known),
nothing is reported. So the more a history records, the more is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_eos.protocol.types import TopicPartition
from spark_eos.testing.history.events import Event, Kind
from spark_eos.testing.history.operations import Facts, FinalReads
from spark_eos.testing.history.reads import (
    aborted_reads,
    misplaced_values,
    precommitted_reads,
    read_order,
    torn_reads,
)
from spark_eos.testing.history.report import ANOMALIES, Anomaly, Report
from spark_eos.testing.history.serial import Order, serial_order
from spark_eos.testing.history.writes import conservation, lost_writes, send_order, unseen_writes

__all__ = ["ANOMALIES", "Anomaly", "Report", "check"]


def check(
    history: Iterable[Event],
    *,
    partitions_read_fully: FinalReads | None = None,
    log_starts: Mapping[TopicPartition, int] | None = None,
    order: Order = "realtime",
) -> Report:
    """Look for anomalies in a history.

    Parameters
    ----------
    history
        The events, in real time order (`Recorder.history`).
    partitions_read_fully
        What a ``read_committed`` reader found in each partition, as pairs of offset and value, when it read from the
        start to the end after everything else, with no transaction open. Without it, a loss after the last polled
        record is not noticed.
    log_starts
        The first offsets of partitions that retention has shortened (default 0). Nothing is missed below them.
    order
        For G0 and G1c: ``none``, ``process`` (session order) or ``realtime`` (strict serializability).

    Returns
    -------
    Report
        The anomalies, and how much was looked at.

    Raises
    ------
    InvalidRequestError
        It is no history: a completion without its invocation, or a value that is sent twice to one partition.

    Examples
    --------
    >>> from spark_eos import TopicPartition
    >>> from spark_eos.testing import Recorder, Send, check
    >>> orders = TopicPartition("orders", 0)
    >>> recorder = Recorder()
    >>> recorder.ok(recorder.invoke("writer", "send", [Send(orders, "a")]), [Send(orders, "a", offset=0)])
    >>> report = check(recorder.history, partitions_read_fully={orders: []})
    >>> report.ok, dict(report.names)
    (False, {'unseen': 1, 'conservation': 1})

    Notes
    -----
    A partition to which the history records no send counts as written by others: then the origin of its values is not
    checked.
    """
    events = [*history]
    facts = Facts(events, partitions_read_fully or {}, log_starts or {})
    disorder, runs = read_order(facts)
    anomalies = [
        *misplaced_values(facts),
        *aborted_reads(facts),
        *precommitted_reads(facts),
        *disorder,
        *torn_reads(facts),
        *send_order(facts),
        *lost_writes(facts, runs),
        *unseen_writes(facts),
        *conservation(facts),
        *serial_order(facts, order),
    ]
    rank = {name: number for number, name in enumerate(ANOMALIES)}
    anomalies.sort(key=lambda anomaly: rank[anomaly.name])
    return Report(anomalies, _counts(events, facts))


def _counts(events: list[Event], facts: Facts) -> dict[str, int]:
    operations = facts.operations
    return {
        "events": len(events),
        "operations": len(operations),
        "ok": sum(operation.kind is Kind.OK for operation in operations),
        "fail": sum(operation.kind is Kind.FAIL for operation in operations),
        "info": sum(operation.kind is Kind.INFO for operation in operations),
        "transactions": sum(operation.transaction is not None for operation in operations),
        "streamed": sum(operation.streamed for operation in operations),
        "values sent": len(facts.writers),
        "values read": len(facts.reads),
        "records polled": sum(len(poll.records) for op in operations for poll in op.polls),
    }
