"""The parts of chaos that only compare: each must see what it is there for."""

from __future__ import annotations

from collections import Counter

import pytest

from spark_eos import Producer, TopicPartition
from spark_eos.log.log import Log
from spark_eos.maintenance.rolling import Roller
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing.history import Recorder, Send, merge
from tests.maintenance.sparse_world import World, small_pages
from verification.chaos.checker import Rows, compare, holes, torn, verify_inputs
from verification.chaos.final_read import Comparison
from verification.chaos.journal import CONCURRENT, Notes, NotesReader, error_name
from verification.chaos.readers import Visible, Watcher, consumed, final, read_topic
from verification.chaos.table import Line, Struck, by_kind, total, workload_table
from verification.chaos.workloads import WORKLOADS, Query, chosen

AT = TopicPartition("plain", 0)


# -- rows -----------------------------------------------------------------------------------------------


def test_the_same_rows_are_exact_in_any_order():
    assert compare(Counter("aab"), "aba").exact


@pytest.mark.parametrize(
    ("found", "lost", "doubled", "strange"),
    [("ac", 1, 0, 0), ("aabc", 0, 1, 0), ("abcx", 0, 0, 1), ("bbbxx", 2, 2, 2)],
)
def test_what_is_lost_doubled_or_must_not_be_there(found, lost, doubled, strange):
    rows = compare(Counter("abc"), found)
    assert (rows.lost, rows.doubled, rows.strange) == (lost, doubled, strange)
    assert not rows.exact
    assert rows.examples


def test_a_count_that_is_too_low_has_lost_rows():
    rows = compare({"k1": 5, "k2": 1}, {"k1": 4, "k2": 1})
    assert (rows.wanted, rows.found, rows.lost) == (6, 5, 1)


def test_offsets_join_up_or_it_is_said_where_not():
    assert holes("p", [(0, 3), (3, 4)], 0, 4) == []
    assert "begins at offset 4" in holes("p", [(0, 3), (4, 5)], 0, 5)[0]
    assert "begins at offset 2" in holes("p", [(0, 3), (2, 5)], 0, 5)[0]
    assert "the partition at 6" in holes("p", [(0, 3)], 0, 6)[0]


def test_output_without_its_offsets_is_torn():
    assert torn("t", 7, 5, 5) == []
    assert "entry 7" in torn("t", 7, 5, 6)[0]


# -- histories ------------------------------------------------------------------------------------------


def history(*calls):
    """Calls one after the other: (outcome, values)."""
    ticks = iter(range(1_000))
    recorder = Recorder(clock=lambda: next(ticks))
    for number, (outcome, values) in enumerate(calls):
        token = recorder.invoke(
            "p", "transaction", [Send(AT, value) for value in values], transaction=f"t{number}"
        )
        if outcome != "killed":
            getattr(recorder, outcome)(token)
    return recorder.history


def seen(values):
    return {AT: list(enumerate(values))}


def test_acknowledged_records_once_and_unknown_ones_at_most_once():
    events = history(("ok", "ab"), ("killed", "c"), ("fail", "d"), ("killed", "e"))
    for values in ("ab", "abc", "abce"):
        rows, anomalies = verify_inputs(events, seen(values))
        assert rows.exact, values
        assert anomalies == []


@pytest.mark.parametrize(
    ("values", "lost", "doubled", "strange"),
    [("a", 1, 0, 0), ("aab", 0, 1, 0), ("abd", 0, 0, 1), ("abcc", 0, 1, 0), ("abx", 0, 0, 1)],
)
def test_acknowledged_lost_or_doubled_and_aborted_seen(values, lost, doubled, strange):
    events = history(("ok", "ab"), ("killed", "c"), ("fail", "d"))
    rows, anomalies = verify_inputs(events, seen(values))
    assert (rows.lost, rows.doubled, rows.strange) == (lost, doubled, strange)
    assert anomalies


# -- readers --------------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path):
    made = Log.create(str(tmp_path / "log"))
    for topic in ("plain", "tx", "copied"):
        made.ensure_topic(topic, 1)
    return made


def write(log, topic, *texts, offsets=None, group="copier", abort=False):
    """One transaction; ``offsets``: what a group has read of ``plain`` with it."""
    producer = Producer(log, {"transactional.id": "writer"})
    producer.init_transactions()
    producer.begin_transaction()
    for text in texts:
        producer.send(topic, text, key=f"k{text[-1]}", partition=0)
    if offsets is not None:
        producer.send_offsets_to_transaction({AT: offsets}, group)
    if abort:
        producer.flush()
        producer.abort_transaction()
    else:
        producer.commit_transaction()


COPIER = Query("copier", "copy", "copied")


def watched(log, *queries):
    watcher = Watcher(log.url, queries)
    watcher.look()
    watcher.look()
    return watcher.problems


def test_a_copy_in_step_with_its_offsets_is_fine(log):
    write(log, "plain", "a", "b", abort=True)
    write(log, "plain", "c", "d")
    write(log, "copied", "copier:c", offsets=4)  # two aborted ones, their marker, and c
    assert watched(log, COPIER) == []
    assert consumed(log.follow(), "copier", Visible(log)) == 1
    assert [row.value for row in read_topic(log, log.state, "plain")] == ["c", "d"]
    assert final(log, log.state, ["plain"]) == {AT: [(3, "c"), (4, "d")]}


def test_what_lies_below_an_offset_in_the_middle_of_a_rolled_batch_is_counted_exactly():
    with small_pages():
        world = World(MemoryStore())
        for number in range(8):
            world.transaction(b"%d" % number)
        world.seal()
        Roller(world.log).run()
    (row,) = world.sealed()
    assert row.file.offsets, "a batch with holes"
    at, state, found = TopicPartition("t", 0), world.log.state, Visible(world.log)
    assert [found.below(state, at, offset) for offset in (3, 4, 9, row.count)] == [2, 2, 5, row.batch.count]


def test_a_copy_out_of_step_with_its_offsets_is_seen(log):
    write(log, "plain", "a", "b")
    write(log, "copied", "copier:a", offsets=2)
    (problem,) = watched(log, COPIER)
    assert "stand behind 2 rows, but 1 are written" in problem


def test_a_value_that_comes_twice_is_seen(log):
    write(log, "plain", "a", "b")
    write(log, "copied", "copier:a", "copier:a", offsets=2)
    (problem,) = watched(log, COPIER)
    assert "'copier:a' is twice in topic copied" in problem


def test_a_count_that_falls_is_seen(log):
    counts = Query("copier", "counts", "copied")
    watcher = Watcher(log.url, [counts])
    watcher._counts = {"k1": 3}
    write(log, "copied", "0")
    watcher.look()
    assert any("the count of k1 fell from 3" in problem for problem in watcher.problems)


def test_what_a_watcher_polls_is_a_history(log):
    write(log, "plain", "a", "b")
    watcher = Watcher(log.url, [])
    watcher.look()
    events = merge(watcher.history, history(("ok", "ab")))
    polled = [
        record for event in events for action in event.actions for record in getattr(action, "records", ())
    ]
    assert polled == [(0, "a"), (1, "b")]


def test_two_sinks_on_one_topic_are_compared_together(log):
    sinks = [Query(name, "copy", "copied") for name in ("a", "b")]
    write(log, "plain", "1", "2")
    write(log, "copied", "a:1", "a:2", offsets=2, group="a")
    write(log, "copied", "b:1", offsets=1, group="b")
    assert Comparison(log).outputs(sinks).exact  # b has yet to read the other one
    write(log, "copied", offsets=2, group="b")
    rows = Comparison(log).outputs(sinks)
    assert (rows.wanted, rows.found, rows.lost) == (4, 3, 1)
    assert rows.examples == ("lost 'b:2'",)
    write(log, "copied", "b:2")
    assert Comparison(log).outputs(sinks).exact


def test_counts_are_compared_as_rows(log):
    counts = [Query("counts", "counts", "copied")]
    write(log, "plain", "11", "21", "32")
    write(log, "copied", "2", offsets=3, group="counts")  # of the key k2; one too many, and k1 is missing
    rows = Comparison(log).outputs(counts)
    assert (rows.lost, rows.doubled) == (2, 1)


# -- what is wanted, and the table ----------------------------------------------------------------------


def test_what_each_kind_of_query_has_to_make_of_its_input():
    read = [("k1", "p/11"), ("k2", "p/12"), ("k1", "p/21")]
    assert Query("n", "copy", "t").expected(read) == Counter({"n:p/11": 1, "n:p/12": 1, "n:p/21": 1})
    assert Query("n", "distinct", "t").expected(read) == Counter({"p/1": 1, "p/2": 1})
    assert Query("n", "counts", "t").expected(read) == Counter({"k1": 2, "k2": 1})


def test_workloads_are_chosen_by_name():
    assert [one.name for one in chosen(["group", "copier"])] == ["group", "copier"]
    assert chosen([]) == WORKLOADS
    with pytest.raises(KeyError):
        chosen(["nobody"])


def test_the_table_counts_shared_processes_once():
    struck = Struck(Counter({"driver": 2, "client": 1}), Counter({"driver": 1}), 3, 1)
    lines = [
        Line("copier", struck, Rows(10, 9, 1, 0, 0)),
        Line("sinks", None, Rows(20, 21, 0, 1, 0), shared="copier"),
    ]
    all_of_it = total(lines)
    assert all_of_it.struck.kills.total() == 3
    assert (all_of_it.rows.lost, all_of_it.rows.doubled) == (1, 1)
    text = workload_table(lines)
    assert "with copier" in text
    assert text.splitlines()[-1].split() == ["total", "3", "1", "3", "1", "30", "30", "1", "1", "0"]
    assert by_kind(lines).splitlines()[1].split() == ["kills", "2", "0", "0", "1", "0", "3"]


def test_notes_are_read_line_by_line(tmp_path):
    reader = NotesReader(tmp_path / "notes")
    assert reader.new() == []
    notes = Notes(tmp_path / "notes")
    notes.add("ready", application="app-1")
    assert reader.new() == [{"what": "ready", "application": "app-1"}]
    with (tmp_path / "notes").open("a") as file:
        file.write('{"what": "cut o')
    assert reader.new() == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x\nspark_eos.errors.ProducerFencedError: query run", "ProducerFencedError"),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.", CONCURRENT),
        ("[STREAM_FAILED] a task failed: ExecutorLostFailure (executor 1)", "ExecutorLostFailure"),
        ("[STREAM_FAILED] Query [id = 1]", "STREAM_FAILED"),
        ("something else\nmore", "something else"),
    ],
)
def test_errors_have_short_names(text, name):
    assert error_name(text) == name
