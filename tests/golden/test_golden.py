"""Logs of every format that has landed are read by this version, and can be written on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eos.config.isolation import Isolation
from spark_eos.log.data.planner import end_offset, plan
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.encoding import schema
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.index import Kind
from spark_eos.protocol.publication import Publication
from spark_eos.protocol.state import State
from spark_eos.protocol.types import NO_PRODUCER, RULES, TopicPartition
from spark_eos.storage import open_store
from spark_eos.storage.encryption import EncryptedStore
from tests.golden.make import main, make

GOLDEN = Path(__file__).parent
VERSIONS = sorted(
    (folder.name for folder in GOLDEN.glob("v*") if folder.is_dir()), key=lambda name: int(name[1:])
)


def seen(log: Log) -> dict[str, object]:
    """What a reader can see of a log, as JSON."""
    state = log.state
    topics: dict[str, object] = {}
    for name in sorted(state.topics):
        topic = state.topics[name]
        partitions = []
        for number in range(topic.partitions):
            partition = state.partitions[topic.topic_id, number]
            at = TopicPartition(name, number)
            rows = {}
            for isolation in Isolation:
                end = end_offset(partition, isolation)
                rows[isolation.value] = [
                    [records.offset(i), {k: _plain(v) for k, v in row.items()}]
                    for fetch in plan(state, at, partition.start, end, isolation, log.load)
                    for records in [log.read(topic, fetch)]
                    for i, row in enumerate(records.to_pylist())
                ]
            partitions.append(
                {
                    "start": partition.start,
                    "end": partition.end,
                    "lso": partition.last_stable_offset,
                    "kinds": [Kind(row.kind).name for row in partition.index.scan(0, log.load)],
                    "rows": rows,
                }
            )
        topics[name] = {"id": topic.topic_id, "config": dict(topic.config), "partitions": partitions}
    return {
        "log": state.log_id,
        "seq": state.seq,
        "floor": state.staging_floor,
        "topics": topics,
        "groups": {
            group: {
                f"{topic}-{number}": [at.offset, at.metadata]
                for (topic, number), at in sorted(offsets.items())
            }
            for group, offsets in sorted(state.offsets.items())
        },
        "producers": {
            str(p.producer_id): [p.epoch, p.number, p.transactional_id, p.transaction.value, list(p.runs)]
            for p in sorted(state.producers.values(), key=lambda p: p.producer_id)
        },
        "queries": {
            name: [query.query_id, query.batch_id, [[s.start, s.end, s.group] for s in query.sources]]
            for name, query in sorted(state.queries.items())
        },
        **_since_version_2(state),
    }


def _since_version_2(state: State) -> dict[str, object]:
    groups = {
        name: [
            group.generation,
            group.assignor,
            group.status,
            {m.member_id: [m.generation, m.instance_id, m.held] for _, m in sorted(group.members.items())},
        ]
        for name, group in sorted(state.groups.items())
    }
    named = {
        name: [query.stateful, [s.name for s in query.sources], [s.name for s in query.former]]
        for name, query in sorted(state.queries.items())
        if query.stateful is not None
    }
    versions = [
        [app_id, topic_id, known.version, known.timestamp_ms]
        for (app_id, topic_id), known in sorted(state.app_versions.items())
    ]
    found: dict[str, object] = {
        "members": groups,
        "config": dict(sorted(state.config.items())),
        "named": named,
        "versions": versions,
        "publications": {name: _publication(one) for name, one in sorted(state.publications.items())},
        "publication floor": state.publication_floor,
        "encrypted": [state.encrypted_at, state.encryption_key_id] if state.encrypted_at >= 0 else None,
        "data": [state.data_url, state.data_placed_at] if state.data_placed_at >= 0 else None,
        "data before": None if state.data_before is None else list(state.data_before),
        "prepared": {
            str(one.producer_id): list(one.prepared[:2])
            for _, one in sorted(state.producers.items())
            if one.prepared is not None
        },
        "follows": {
            str(one.producer_id): [str(one.prepared.decider), one.prepared.decider.history.hex()]
            for _, one in sorted(state.producers.items())
            if one.prepared is not None and one.prepared.decider is not None
        },
        "decides": {
            str(one.producer_id): [*one.decision[:2], one.decision.history.hex(), *one.decision[3:]]
            for _, one in sorted(state.producers.items())
            if one.decision is not None
        },
        "history": [state.rules, state.lineage.hex(), state.time_resets] if state.rules > 1 else None,
    }
    return {name: json.loads(json.dumps(value)) for name, value in found.items() if value}


def _publication(one: Publication) -> list[object]:
    versions = [
        [
            [version.sequence, version.entry, version.epoch, version.begun_seq, version.timestamp_ms],
            [sorted(version.schemas.items()), sorted(version.natives.items())],
            [
                [*key, pin.start, pin.end, [list(page.identity) for page in pin.pages]]
                for key, pin in sorted(version.pins.items())
            ],
        ]
        for version in one.versions
    ]
    settings = sorted(one.config.items())
    return [one.format, settings, one.topics, one.epoch, one.first, one.published is not None, versions]


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, (int, type(None))) else str(value)


class Keys:
    """The key with which the test writes on."""

    def key(self, key_id: str) -> bytes | None:
        return b"g" * 32 if key_id == "golden" else None


def test_there_is_a_golden_log() -> None:
    assert VERSIONS[:14] == [f"v{number}" for number in range(1, 15)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_of_an_earlier_format_is_read(version: str) -> None:
    expected = json.loads((GOLDEN / f"{version}.json").read_text())
    assert seen(Log.open(GOLDEN / version)) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_of_an_earlier_format_is_written_on(version: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / version, tmp_path / "log")
    store = open_store(tmp_path / "log")
    if Log.open(store).state.encrypted_at >= 0:
        store = EncryptedStore(store, Keys(), "golden")
    log = Log.open(store)
    topic = log.topic("events")
    with log.stage(topic) as writer:
        writer.append(pa.table({"value": [b"new"]}), 0)
        files = writer.finish()
    committed = log.commit(lambda _: (AppendBatches(NO_PRODUCER, ((topic.name, topic.topic_id),), files),))
    assert committed.seq == json.loads((GOLDEN / f"{version}.json").read_text())["seq"] + 1
    assert seen(Log.open(store))["topics"]["events"]["partitions"][0]["rows"]["read_committed"][-1] == [
        5,
        {"key": None, "value": "new", "headers": None, "timestamp": _time(log)},
    ]


def _time(log: Log) -> str:
    at = TopicPartition("events", 0)
    fetch = plan(log.state, at, 5, 6, Isolation.READ_COMMITTED)[0]
    return str(log.read(log.topic("events"), fetch).column("timestamp")[0].as_py())


def test_todays_entries_are_those_of_the_newest_golden_log(tmp_path: Path) -> None:
    """A change of the entries' bytes is a change of the format: it needs a version and a golden log.

    Another pyarrow writes other bytes into Parquet files: with it the entries before the first such file are compared.
    """
    make(tmp_path / "log")
    ours, theirs = _written(tmp_path / "log"), _written(GOLDEN / VERSIONS[-1])
    if _pyarrow_of(tmp_path / "log") != _pyarrow_of(GOLDEN / VERSIONS[-1]):
        first = min(int(Path(name).stem) for name in theirs if _names_parquet(theirs[name]))
        ours, theirs = ({n: one[n] for n in one if _is_entry_before(n, first)} for one in (ours, theirs))
        assert len(theirs) > 100
    assert {*ours} == {*theirs}
    assert [name for name in sorted(ours) if ours[name] != theirs[name]] == []


def test_the_next_golden_log_is_made_without_an_argument(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([], tmp_path)
    main([], tmp_path)
    assert capsys.readouterr().out.splitlines()[1] == f"wrote {tmp_path}/v2 and {tmp_path}/v2.json"
    assert json.loads((tmp_path / "v2.json").read_text()) == seen(Log.open(tmp_path / "v2"))


@pytest.mark.parametrize("version", VERSIONS)
def test_entries_keep_their_values_and_bytes(version: str) -> None:
    """An entry that is read and written again has the same values, and the same bytes if its schema is the newest."""
    newest, _ = schema.newest()
    count = 0
    for name, data in _written(GOLDEN / version).items():
        if data[:6] != b"EOSLOG":
            continue
        count += 1
        seq = int(Path(name).stem)
        entry = decode_entry(data, seq, name)
        again = encode_entry(entry)
        assert decode_entry(again, seq, name) == entry._replace(rules=RULES)
        if data[8:16] == newest:
            assert again == data, name
    assert count > 5


def _pyarrow_of(log: Path) -> str:
    return str(pq.read_metadata(next(log.rglob("*.parquet"))).created_by)


def _names_parquet(data: bytes) -> bool:
    return data[:6] == b"EOSLOG" and b".parquet" in data


def _is_entry_before(name: str, seq: int) -> bool:
    return name.startswith("_log/0") and int(Path(name).stem) < seq


def _written(log: Path) -> dict[str, bytes]:
    """Entries, snapshots and index pages."""
    return {str(path.relative_to(log)): path.read_bytes() for path in (log / "_log").rglob("*.avro")}
