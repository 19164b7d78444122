"""What must hold when all is over, beyond what the log checker saw in the log itself."""

from __future__ import annotations

from collections import Counter
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from spark_eos.errors import ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.protocol.types import TopicPartition
from spark_eos.testing.history import check
from verification.simulator.context import AUTO, INPUT, OUTPUT, PARTITIONS, SHARED, Stage
from verification.simulator.log_checker import LogChecker
from verification.simulator.pairs import check_pairs
from verification.simulator.spark_calls import UnknownCallError
from verification.simulator.spark_calls import check as check_order
from verification.simulator.spark_order import ORDERS
from verification.simulator.tables import PUBLICATION, SimulatedTable, TableVersion
from verification.simulator.tills import check_databases

__all__ = ["judge"]

_QUERY = "query"


def judge(stage: Stage, log_checker: LogChecker, problems: list[str], *, copying: bool) -> Counter[str]:
    """Add to ``problems`` what was promised and did not hold; what was refused or unknown, by kind."""
    found = len(log_checker.problems)
    if log_checker.state.open_transactions:
        problems.append(
            f"transactions of producers {sorted(log_checker.state.open_transactions)} stayed open"
        )
    rows = Counter(value for found in log_checker.everything(SHARED).values() for _, value in found)
    problems += check_databases(stage.databases, rows)
    problems += check_pairs(stage.pairs, rows)
    if copying:
        _check_copies(stage, log_checker, problems)
    _check_orders(stage, problems)
    _check_followers(stage, log_checker, problems)
    _check_batches(stage, log_checker, problems)
    _check_promises(stage, log_checker, problems)
    _check_tables(stage, log_checker, problems)
    answers = log_checker.compare(stage.told)
    problems += log_checker.problems[found:]
    return answers


def _check_copies(stage: Stage, log_checker: LogChecker, problems: list[str]) -> None:
    """Everything is copied, once, from where the copying began; and what was one after the other still is."""
    begins = stage.begins
    for began in stage.began[:1]:
        for number, offset in begins.items():
            if offset and not began.lowest[number] <= offset <= began.highest[number]:
                problems.append(f"the query begins at {offset} of {INPUT}-{number}, which was no end then")
    places = {
        value: (number, offset)
        for number, rows in log_checker.everything(INPUT).items()
        for offset, value in rows
        if offset >= begins.get(number, 0)
    }
    output = log_checker.everything(OUTPUT)
    copies = Counter(value for rows in output.values() for _, value in rows)
    if lost := set(places) - set(copies):
        problems.append(f"not copied: {sorted(lost)}")
    if other := set(copies) - set(places):
        problems.append(f"copied out of nothing: {sorted(other)}")
    if twice := {value: count for value, count in copies.items() if count > 1}:
        problems.append(f"copied more than once: {twice}")
    for number, rows in output.items():
        reached: dict[int, int] = {}
        for offset, value in rows:
            came_from, place = places.get(value, (-1, 0))
            if place < reached.get(came_from, 0):
                problems.append(f"{value!r} at offset {offset} of {OUTPUT}-{number} is out of order")
            reached[came_from] = place


def _check_orders(stage: Stage, problems: list[str]) -> None:
    """The simulated Spark does what Spark was seen to do."""
    for ends, calls in stage.drivers:
        try:
            check_order(calls, {INPUT: ends}, ORDERS[stage.spark])
        except UnknownCallError as error:
            problems.append(str(error))


def _check_followers(stage: Stage, log_checker: LogChecker, problems: list[str]) -> None:
    """What a group with auto-commit has passed was given to one of its members."""
    for number, rows in log_checker.everything(SHARED).items():
        passed = log_checker.book.farthest.get((AUTO, (SHARED, number)), 0)
        missed = [at for at, _ in rows if at < passed and (number, at) not in stage.delivered]
        if missed:
            problems.append(
                f"group {AUTO} passed offsets {missed} of {SHARED}-{number} and gave them to nobody"
            )


def _check_batches(stage: Stage, log_checker: LogChecker, problems: list[str]) -> None:
    """What a driver noted as done is in the log, as it planned it, and it has fenced those before it."""
    for done in stage.done:
        what = f"batch {done.batch_id} of run {done.run_id}"
        batch = log_checker.book.batches.get((_QUERY, done.query_id, done.batch_id))
        if batch is None:
            problems.append(f"{what} was said to be done and is not in the log")
            continue
        ends = {TopicPartition(at.topic, at.partition): at.offset for at in batch.sources[0].end_offsets}
        if ends != done.end:
            problems.append(f"{what} was to end at {done.end}; the log has one that ends at {ends}")
        if log_checker.book.runs.get(done.run_id, done.at + 1) > done.at:
            problems.append(f"{what} was said to be done, and its run was not registered: nobody is fenced")
        if done.late:
            problems.append(f"{what} was said to be done to a run whose successor had finished it")


def _check_tables(stage: Stage, log_checker: LogChecker, problems: list[str]) -> None:
    """Each version of a table has what the log had after its entry, row by row, and the newest one has its files."""
    problems += stage.broken
    publication = log_checker.state.publications.get(PUBLICATION)
    for topic in (INPUT, SHARED):
        topic_id = log_checker.state.topics[topic].topic_id
        versions = SimulatedTable(stage.store.inner, paths.table_folder(topic, topic_id)).versions()
        before = None
        for version in versions:
            what = f"version {version.sequence} of the table of {topic}"
            if before is not None and (version.sequence <= before.sequence or version.entry < before.entry):
                problems.append(f"{what} comes after version {before.sequence}")
            if problem := _differs(stage, log_checker, topic, version):
                problems.append(f"{what}, for entry {version.entry}, {problem}")
            before = version
        if before is None:
            continue
        log_checker.book.events["versions of tables"] += len(versions)
        known = () if publication is None else publication.versions
        lost = [
            name
            for name in before.files
            if any(one.sequence == before.sequence for one in known) and not _is_there(stage, name)
        ]
        if lost:
            problems.append(f"the table of {topic} has lost {lost}")


def _is_there(stage: Stage, name: str) -> bool:
    try:
        stage.store.inner.size(name)
    except ObjectNotFoundError:
        return False
    return True


def _differs(stage: Stage, log_checker: LogChecker, topic: str, version: TableVersion) -> str:
    """What the version has besides, or lacks."""
    topic_id = log_checker.state.topics[topic].topic_id
    then = log_checker.places[version.entry]
    stood = {
        number: (one.start, one.last_stable_offset) for (id_, number), one in then.items() if id_ == topic_id
    }
    named = {number: ends for number, ends in version.offsets.items() if number in stood}
    if named != stood or any(ends != (0, 0) for at, ends in version.offsets.items() if at not in stood):
        return f"has the offsets {version.offsets}; the log had {stood}"
    rows: Counter[tuple[int, int, str]] = Counter()
    for name in version.files:
        store = stage.store.inner if _is_there(stage, name) else stage.store.archive
        try:
            table = pq.read_table(BytesIO(bytes(store.read(name))))
        except pa.ArrowInvalid as error:
            return f"has {name}, which cannot be read: {error}"
        columns = (table.column(column).to_pylist() for column in ("partition", "offset", "value"))
        rows.update((at, offset, value.decode()) for at, offset, value in zip(*columns, strict=True))
    wanted = Counter(
        (number, offset, value)
        for number, found in log_checker.everything(topic).items()
        for offset, value in found
        if stood.get(number, (0, 0))[0] <= offset < stood.get(number, (0, 0))[1]
    )
    return "" if rows == wanted else f"lacks {[*(wanted - rows)]}, and has {[*(rows - wanted)]} besides"


def _check_promises(stage: Stage, log_checker: LogChecker, problems: list[str]) -> None:
    found = log_checker.everything(SHARED)
    final = {TopicPartition(SHARED, number): found[number] for number in range(PARTITIONS[SHARED])}
    report = check(stage.recorder.history, partitions_read_fully=final)
    problems += [str(anomaly) for anomaly in report.forbidden]
