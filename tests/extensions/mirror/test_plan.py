"""The pure part of a mirror: runs of offsets, batches on a state, and topics that follow Kafka's."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos import Admin, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.errors import (
    CheckpointMismatchError,
    ConfigError,
    CorruptRecordError,
    InvalidRequestError,
    ProducerFencedError,
    UnknownTopicOrPartitionError,
)
from spark_eos.extensions.mirror import plan as planning
from spark_eos.extensions.mirror.batch_writer import BatchWriter, Filled
from spark_eos.extensions.mirror.buffer import Columns
from spark_eos.extensions.mirror.groups import moves
from spark_eos.extensions.mirror.kafka_source import SourceTopic
from spark_eos.extensions.mirror.notes import Note, write_note
from spark_eos.extensions.mirror.options import MirrorOptions
from spark_eos.extensions.mirror.plan import BatchPlan, PlanOutdatedError, Share, actions, plan, take_over
from spark_eos.extensions.mirror.positions import (
    MirroredPartition,
    Position,
    last_batch,
    map_topic,
    position_of,
    positions,
)
from spark_eos.extensions.mirror.runs import KAFKA, LOG, MapRow, Place, Run, joined, located, runs_of
from spark_eos.extensions.mirror.targets import Target, check_continues, copied, prepare
from spark_eos.log.log import Log
from spark_eos.log.topics import is_compacted
from spark_eos.monitoring.elsewhere import query_commits
from spark_eos.protocol.actions import JoinGroup, PartitionOffset
from spark_eos.storage.memory import MemoryStore

# -- Runs ----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.integers(0, 3)), max_size=8)
)
def test_the_map_finds_every_record_on_both_sides(batches):
    """Batches with gaps in Kafka (``steps``), between which others write ``foreign`` records into the log."""
    kafka, log, end, rows, pairs = 0, 0, None, [], []
    for steps, foreign in batches:
        offsets = []
        for step in steps:
            kafka += step
            offsets.append(kafka)
        log += foreign
        runs = runs_of(np.array(offsets), log)
        row = joined(end, runs)
        if row is not None:
            rows.append(MapRow.of(row.data, "row"))
        pairs += [(offset, log + at) for at, offset in enumerate(offsets)]
        end, log = runs[-1].end, log + len(offsets)
    runs = []
    for number, row in enumerate(rows):
        ends = rows[number + 1].end if number + 1 < len(rows) else end
        runs += row.runs[:-1]
        runs.append(row.runs[-1]._replace(count=ends[KAFKA] - row.runs[-1].kafka))
        assert row.runs[-1].log + runs[-1].count == ends[LOG]
    for there, here in pairs:
        assert located(runs, there, KAFKA) == Place(here, exact=True)
        assert located(runs, here, LOG) == Place(there, exact=True)
    for offset in {*range(kafka + 2)} - {there for there, _ in pairs}:
        after = [here for there, here in pairs if there > offset]
        assert located(runs, offset, KAFKA) == (Place(after[0], exact=False) if after else None)


def test_records_without_gaps_are_one_run_however_many_batches():
    first = joined(None, runs_of(np.arange(5, 10), 0))
    assert first == MapRow(None, (Run(5, 0, 5),))
    assert joined((10, 5), runs_of(np.arange(10, 20), 5)) is None
    assert joined((10, 5), runs_of(np.array([10, 11, 13]), 5)) == MapRow((12, 7), (Run(13, 7, 1),))


@pytest.mark.parametrize("data", [None, b"", b"{}", b'{"end":[1],"runs":[]}', b'{"end":null,"runs":[[1,2]]}'])
def test_what_is_no_row_is_named(data):
    with pytest.raises(CorruptRecordError, match=r"^t-0, offset 3 is no row of an offset map"):
        MapRow.of(data, "t-0, offset 3")


# -- Batches -------------------------------------------------------------------------------------------------------


@pytest.fixture
def log():
    made = Log.create(MemoryStore())
    Admin(made).create_topic("t", 2)
    return made


def partition_of(log, number=0):
    return MirroredPartition("m", "kafka-id", log.topic("t").topic_id, number)


def share_of(log, run, offsets, number=0):
    partition = partition_of(log, number)
    after = Position(
        "c", "t", "kafka-id", "t", partition.target_id, number, (offsets[-1] + 1) if offsets else 0
    )
    return Share(partition, run, last_batch(log.follow(), partition), after, np.array(offsets, np.int64))


def take(log, run, number=0):
    log.commit(lambda state: take_over(state, [(partition_of(log, number), run)]))


def write_with_map(log, share):
    """The batch with rows and map, by the writer of a mirror."""
    rows = [b"%d" % offset for offset in share.offsets]
    none = [None] * len(rows)
    columns = Columns(none, rows, none, [5] * len(rows))
    return BatchWriter(log, "m", lambda: False).write([Filled(share, "t", columns)])


def write(log, *shares, state=None):
    """The batch with rows, as a mirror commits it."""
    batch = plan(state or log.follow(), shares)
    with log.stage(log.topic("t")) as writer:
        for share in shares:
            values = pa.array([b"%d" % offset for offset in share.offsets], pa.binary())
            writer.append(pa.record_batch({"value": values}), share.partition.partition)
        files = writer.finish()
    topics = [("t", log.topic("t").topic_id)]
    return batch, log.commit(lambda state: actions(state, batch, topics, files), alone=True)


def end(log, number=0):
    return log.follow().partitions[log.topic("t").topic_id, number].end


def test_a_batch_goes_in_once(log):
    take(log, "run")
    first = share_of(log, "run", [0, 1, 2])
    write(log, first)
    assert end(log) == 3
    with pytest.raises(CheckpointMismatchError):
        write(log, first)
    with pytest.raises(CheckpointMismatchError, match="batch 0"):
        write(log, share_of(log, "run", [3])._replace(before=first.before))
    assert end(log) == 3
    write(log, share_of(log, "run", [3]))
    ((position,),) = (positions(log.state, "m"),)
    assert (position.offset, position.kafka_end, position.log_end) == (4, 4, 4)


def test_a_batch_that_is_in_is_found_to_be_in(log):
    take(log, "run")
    batch, _ = write(log, share_of(log, "run", [0, 1]))
    assert actions(log.follow(), batch, (), ()) == ()
    take(log, "another")
    with pytest.raises(PlanOutdatedError):
        actions(log.follow(), batch, (), ())


def test_a_run_that_was_replaced_writes_nothing(log):
    take(log, "sleeper")
    late = share_of(log, "sleeper", [0, 1])
    take(log, "successor")
    with pytest.raises(ProducerFencedError):
        write(log, late)
    assert end(log) == 0
    write(log, share_of(log, "successor", [0, 1]))
    with pytest.raises(ProducerFencedError):
        take(log, "sleeper")


def test_of_several_partitions_all_go_in_or_none(log):
    for number in (0, 1):
        take(log, f"run-{number}", number)
    shares = [share_of(log, f"run-{number}", [0, 1], number) for number in (0, 1)]
    take(log, "successor", 1)
    with pytest.raises(ProducerFencedError):
        write(log, *shares)
    assert (end(log), end(log, 1)) == (0, 0)
    write(log, shares[0])
    assert (end(log), end(log, 1)) == (2, 0)


def test_a_plan_holds_for_one_state(log):
    take(log, "run")
    share = share_of(log, "run", [0, 1])
    planned = log.follow()
    with Producer(log) as producer:
        producer.send("t", b"mine", partition=0)
    with pytest.raises(PlanOutdatedError):
        write(log, share, state=planned)
    batch, _ = write(log, share)
    assert batch.rows == (MapRow(None, (Run(0, 1, 2),)),)
    with Producer(log) as producer:
        producer.send("t", b"mine", partition=1)
    assert end(log) == 3


def test_a_position_goes_past_markers_without_rows(log):
    take(log, "run")
    write(log, share_of(log, "run", [0, 1]))
    share = share_of(log, "run", [])
    batch = plan(log.follow(), [share._replace(after=share.after._replace(offset=9))])
    log.commit(lambda state: actions(state, batch, (), ()))
    (position,) = positions(log.state, "m")
    assert (position.offset, position.kafka_end, position.log_end) == (9, 2, 2)
    batch, _ = write(log, share_of(log, "run", [9]))
    assert batch.rows == (MapRow((2, 2), (Run(9, 2, 1),)),)


def test_where_a_topic_begins_is_noted_once(log):
    partition = partition_of(log)
    first = [Position("c", "t", "kafka-id", "t", partition.target_id, number, 7) for number in (0, 1)]
    log.commit(lambda state: planning.begin(state, first, "m", "run"))
    assert [one.offset for one in positions(log.state, "m")] == [7, 7]
    later = [one._replace(offset=20) for one in first]
    assert planning.begin(log.state, later, "m", "another") == ()
    assert positions(log.state, "other") == []


def test_positions_do_not_expire(log):
    take(log, "run")
    write(log, share_of(log, "run", [0]))
    name = partition_of(log).transactional_id
    from spark_eos.protocol.actions import ExpireTransactionalIds

    with pytest.raises(InvalidRequestError):
        log.commit(lambda _: (ExpireTransactionalIds((name,)),))


def test_a_position_of_another_program_is_named():
    with pytest.raises(CorruptRecordError, match=r"transactional\.id 'mirror/m/a/b/0' is one of a mirror"):
        position_of('{"a": 1}', "mirror/m/a/b/0")


def test_records_without_a_key_come_into_a_compacted_topic(tmp_path):
    """Kafka has taken them, before its topic was compacted: the mirror goes on, and they stay."""
    log = Log.create(str(tmp_path / "log"))
    target = Target(SourceTopic("t", "kafka-id", 1), "t", {"cleanup.policy": "compact"})
    log.commit(lambda state: prepare(state, "m", [target], NEW, may_append=False))
    take(log, "run")
    assert is_compacted(log.topic("t"))
    write_with_map(log, share_of(log, "run", [0, 1]))
    assert log.state.partitions[log.topic("t").topic_id, 0].end == 2


def test_an_empty_plan_is_nothing():
    assert plan(Log.create(MemoryStore()).state, []) == BatchPlan((), (), (), ())


# -- Topics --------------------------------------------------------------------------------------------------------

NEW = {"t": "t-id", "__mirror.m.t": "map-id"}
IDS = {name: f"id-{name}" for name in ("t", "__mirror.m.t", "u", "__mirror.m.u")}


def prepared(log, partitions, config=None, *, name="u", may_append=False):
    target = Target(SourceTopic("k", "kafka-id", partitions), name, config)
    return log.commit(lambda state: prepare(state, "m", [target], IDS, may_append=may_append)).state


def test_topics_are_made_and_grow_with_their_maps(log):
    state = prepared(log, 3, {"retention.ms": "5"})
    assert (state.topics["u"].partitions, state.topics["__mirror.m.u"].partitions) == (3, 3)
    assert dict(state.topics["u"].config) == {"retention.ms": "5"}
    assert state.topics["__mirror.m.u"].config["retention.ms"] == "-1"
    seq = state.seq
    assert prepared(log, 3, {"retention.ms": "5"}).seq == seq
    Admin(log).alter_topic("u", config={"segment.bytes": 9, "retention.ms": 5})
    state = prepared(log, 5, {"cleanup.policy": "compact"})
    assert (state.topics["u"].partitions, state.topics["__mirror.m.u"].partitions) == (5, 5)
    assert dict(state.topics["u"].config) == {"segment.bytes": "9", "cleanup.policy": "compact"}
    assert prepared(log, 2, None).topics["u"].partitions == 5


def test_a_map_belongs_to_one_topic(log):
    before = prepared(log, 1).topics["__mirror.m.u"].topic_id
    Admin(log).delete_topic("u")
    IDS.update({"u": "id-2", "__mirror.m.u": "id-3"})
    assert prepared(log, 1).topics["__mirror.m.u"].topic_id != before


def test_records_of_others_are_not_added_to(log):
    with Producer(log) as producer:
        producer.send("t", b"mine")
    with pytest.raises(InvalidRequestError, match="topic 't' has 1 records that mirror 'm' has not written"):
        prepared(log, 2, name="t")
    assert "__mirror.m.t" in prepared(log, 2, name="t", may_append=True).topics


def test_settings_that_are_the_logs_defaults_are_left_out():
    config = {
        "retention.ms": "604800000",
        "cleanup.policy": "compact",
        "min.insync.replicas": "2",
        "retention.bytes": "",
    }
    assert copied(config) == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({}, None, None),
        ({"cluster": "other"}, InvalidRequestError, "Kafka cluster other"),
        ({"source_id": "old"}, UnknownTopicOrPartitionError, r"deleted and created again \(topic id new\)"),
        ({"source_id": "old", "target_id": "gone"}, None, None),
        ({"source_id": "old", "topic": "another"}, None, None),
    ],
)
def test_a_topic_goes_on_only_where_it_is_the_same(change, error, match):
    position = Position("c", "k", "new", "t", "here", 0, 5)._replace(**change)
    topic = SourceTopic("k", "new", 1)
    if error is None:
        check_continues([position], topic, "here", "c", "kafka:9092")
        return
    with pytest.raises(error, match=match):
        check_continues([position], topic, "here", "c", "kafka:9092")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"name": "a/b", "topics": ("t",)}, "--name 'a/b'"),
        ({"name": "m"}, "--topic, --topic-pattern or --partitions"),
        ({"name": "m", "pattern": "("}, "--topic-pattern '\\(' is no regular expression"),
        ({"name": "m", "topics": ("t",), "groups": "["}, "--groups '\\[' is no regular expression"),
        ({"name": "m", "topics": ("t",), "partitions": {"t": [0]}}, "leave out --topic"),
    ],
)
def test_options_that_do_not_fit(options, match):
    with pytest.raises(ConfigError, match=match):
        MirrorOptions(**options).check()


# -- Groups --------------------------------------------------------------------------------------------------------


def test_offsets_of_groups_only_go_on(log):
    at = PartitionOffset("t", log.topic("t").topic_id, 0, 5)
    log.commit(lambda state: moves(state, "g", [at]))
    assert log.state.offset_of("g", "t", 0).offset == 5
    assert moves(log.state, "g", [at._replace(offset=4)]) == ()
    assert moves(log.state, "g", [at]) == ()
    log.commit(lambda state: moves(state, "g", [at._replace(offset=6)]))
    assert log.state.offset_of("g", "t", 0).offset == 6
    log.commit(lambda _: (JoinGroup("g", "member", ("t",), ("range",), 1000),))
    assert moves(log.state, "g", [at._replace(offset=9)]) == ()


# -- Looking up ----------------------------------------------------------------------------------------------------


def looked_up(url, capsys, *more, code=0):
    assert main(["mirror", "offsets", url, "--name", "m", *more]) == code
    shown = capsys.readouterr()
    return (shown.err if code else shown.out).strip()


def test_a_mirror_that_has_mirrored_nothing_is_no_empty_table(tmp_path, capsys):
    url = str(tmp_path / "log")
    log = Log.create(url)
    assert "'m' has mirrored nothing into this log; mirrors that have: none." in looked_up(
        url, capsys, code=1
    )
    log.commit(
        lambda state: prepare(
            state, "m", [Target(SourceTopic("k", "kafka-id", 1), "t", {})], NEW, may_append=False
        )
    )
    take(log, "run")
    share = share_of(log, "run", [0, 1])
    write_with_map(log, share._replace(after=share.after._replace(topic="k")))
    assert main(["mirror", "offsets", url, "--name", "n"]) == 1
    assert "'n' has mirrored nothing into this log; mirrors that have: m." in capsys.readouterr().err
    assert "'m' has not mirrored a topic 'x'; it has mirrored k" in looked_up(
        url, capsys, "--topic", "x", code=1
    )


def test_offsets_are_looked_up(tmp_path, capsys):
    url = str(tmp_path / "log")
    log = Log.create(url)
    log.commit(
        lambda state: prepare(
            state, "m", [Target(SourceTopic("k", "kafka-id", 1), "t", {})], NEW, may_append=False
        )
    )
    take(log, "run")
    for offsets in ([0, 1, 2], [3, 6, 7], [8], [20]):
        share = share_of(log, "run", offsets)
        write_with_map(log, share._replace(after=share.after._replace(topic="k")))
    at = ("--topic", "k", "--partition", "0")
    assert [
        looked_up(url, capsys, *at, "--kafka", str(offset)).split()[0]
        for offset in (0, 3, 4, 6, 8, 9, 20, 21)
    ] == [*("0", "3", "4", "4", "6", "7", "7", "8")]
    assert [
        looked_up(url, capsys, *at, "--log", str(offset)).split()[0] for offset in (0, 3, 4, 6, 7, 8)
    ] == [*("0", "3", "6", "8", "20", "21")]
    assert "(the next mirrored record in the log)" in looked_up(url, capsys, *at, "--kafka", "4")
    assert looked_up(url, capsys, *at, "--kafka", "6", "--json") == '{"offset": 4, "exact": true}'
    assert "lies after what is mirrored [CONFIG]" in looked_up(url, capsys, *at, "--kafka", "22", code=1)
    assert "give --topic, --partition" in looked_up(url, capsys, "--kafka", "1", code=1)
    assert "no partition 3 of a topic 'k'" in looked_up(
        url, capsys, "--topic", "k", "--partition", "3", "--kafka", "1", code=1
    )
    assert looked_up(url, capsys).splitlines()[1].split() == ["k", "0", "t", "21", "8", "no"]
    Admin(url).delete_records({TopicPartition("__mirror.m.t", 0): 1})
    assert "is not whole any more" in looked_up(url, capsys, *at, "--kafka", "1", code=1)


def test_the_log_names_the_mirror_of_a_batch(log):
    """It has no other way to tell that a mirror was here: `spark_eos.monitoring.elsewhere` knows its ids."""
    for number in (0, 1):
        take(log, "run", number)
        write(log, share_of(log, "run", [0], number))
    note = Note("back", "cluster", "positions")
    log.commit(lambda state: write_note(state, note, "run"))
    last_ms = log.state.timestamp_ms
    assert [one.name for one in query_commits(log.state)] == ["mirror-out/back", "mirror/m"]
    assert query_commits(log.state)[0].timestamp_ms is None
    assert query_commits(log.state)[1].timestamp_ms <= last_ms
    assert not any(one.reads_here for one in query_commits(log.state))


def test_each_topic_of_each_mirror_has_a_map_of_its_own():
    """Names have dots, too, and '.' and '_' are the same in names of Kafka's metrics."""
    pairs = (("a.b", "c"), ("a", "b.c"), ("a_b", "c"), ("a", "b_c"), ("a-b", "c"), ("a", "b-c"))
    assert len({map_topic(mirror, topic) for mirror, topic in pairs}) == len(pairs)
