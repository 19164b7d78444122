"""One run at a time: a run that was replaced writes nothing, and takes nothing from its successor."""

from __future__ import annotations

import itertools
import signal

import pytest

from spark_eos import Admin
from spark_eos.errors import CheckpointMismatchError, ProducerFencedError
from spark_eos.testing import FaultyStore

from .conftest import WHERE

pytestmark = pytest.mark.usefixtures("specified")

# -- the rules, without Spark ---------------------------------------------------------------------------


def test_a_run_that_was_replaced_writes_nothing(bench, driver):
    old, new = driver(), driver()
    old.run(0, "a")
    late = [old.stage("late") for _ in range(2)]
    new.run(1, "b")
    for batch_id, messages in enumerate(late, 1):
        with pytest.raises(ProducerFencedError, match=new.run_id):
            old.commit(messages, batch_id)
        old.abort(messages, batch_id)
    new.run(2, "c")
    assert bench.values("out") == ["a", "b", "c"]
    assert bench.files("out") == bench.referenced("out")


def test_a_run_frozen_before_its_first_commit_takes_nothing_from_its_successor(bench, checkpoint, driver):
    frozen, healthy = driver(), driver()
    late = [frozen.stage("late") for _ in range(2)]
    for batch_id, messages in enumerate(late):
        healthy.run(batch_id, "ab"[batch_id])
        checkpoint.finish(batch_id)
        with pytest.raises(ProducerFencedError, match=frozen.run_id):
            frozen.commit(messages, 0)
    healthy.run(2, "c")
    assert bench.values("out") == ["a", "b", "c"]


def test_a_replay_writes_nothing_and_fences_the_slow_predecessor(bench, checkpoint, driver):
    slow, replaying = driver(), driver()
    first = slow.run(0, "a")
    late = slow.stage("late")
    second = replaying.run(0, "a")
    names = [{staged.file.name for message in run for staged in message.files} for run in (first, second)]
    assert bench.files("out") & names[0] == names[0]
    assert not bench.files("out") & names[1]
    with pytest.raises(ProducerFencedError, match=replaying.run_id):
        slow.commit(late, 1)
    replaying.run(1, "b")
    assert bench.values("out") == ["a", "b"]
    assert bench.group(checkpoint.query_id) == {("src", 0): 20}


def test_a_commit_that_is_refused_does_not_register_its_run(bench, driver, hand_made, ours_at):
    healthy = driver(transactional_id="tx")
    healthy.run(0, "a")
    stranger = hand_made("stranger")
    stranger.offsets(0, ours_at(50, start=30))
    with pytest.raises(CheckpointMismatchError, match="startingOffsets=committed"):
        driver(stranger, transactional_id="tx").run(0, "x")
    assert bench.state.producer_of("tx").run_id == healthy.run_id
    healthy.run(1, "b")
    assert bench.values("out") == ["a", "b"]


def test_a_run_that_loses_the_slot_after_its_check_is_checked_again(bench, driver):
    old, new = driver(), driver()
    old.run(0, "a")
    late = old.stage("late")
    raced = []
    inner = bench.log.store
    store = FaultyStore(inner)

    def overtake(operation, name):
        if operation == "create" and not raced:
            raced.append(name)
            bench.forget()
            new.run(1, "b")

    store.before = overtake
    bench.spoil(store)
    with pytest.raises(ProducerFencedError, match=new.run_id):
        old.commit(late, 1)
    assert raced
    assert bench.values("out") == ["a", "b"]


def test_an_administrator_fences_a_query(bench, driver):
    running = driver(transactional_id="tx")
    running.run(0, "a")
    Admin(bench.url).fence_producers(["tx"])
    with pytest.raises(ProducerFencedError, match="another client has taken over"):
        running.run(1, "b")
    driver(transactional_id="tx").run(1, "b")
    assert bench.values("out") == ["a", "b"]


def test_a_run_without_rows_is_fenced_and_fences(bench, driver):
    old, new = driver(), driver()
    old.run(0)
    new.run(1)
    with pytest.raises(ProducerFencedError, match=new.run_id):
        old.run(1)
    assert bench.count("out") == 0


# -- two drivers ----------------------------------------------------------------------------------------


@pytest.mark.deep
@WHERE
def test_a_frozen_driver_that_thaws_is_fenced_and_its_successor_goes_on(
    streams, benches, process, servers, master
):
    process.master = master
    # One has committed before it is stopped, one never has.
    turns = zip([("known", 1), ("new", 0)], itertools.cycle(servers), strict=False)
    held = {benches(name, at): batch for (name, batch), at in turns}
    for log, batch in held.items():
        log.topic("a", 2)
        log.produce("a", range(10))
        process.job(log, "a", moment="task", batch=batch)
    process.start()
    process.wait_for(lambda: all(log.count("out-a") == 10 for log, batch in held.items() if batch), "batch 0")
    for log in held:
        log.produce("a", range(10, 20))
    process.wait_for(lambda: all(map(process.holds, held)), "the queries to hold")
    process.signal(signal.SIGSTOP)
    assert [log.count("out-a") for log in held] == [10 * batch for batch in held.values()]

    def resume(log):
        frame = streams.read("a", log, maxOffsetsPerTrigger=10)
        frame = frame.selectExpr("key", "value", "concat('out-', topic) AS topic")
        streams.run(frame, None, process.checkpoint(log).name, log)

    for log in held:
        resume(log)
        assert log.values("out-a") == [*range(20)]
    heads = [log.state.seq for log in held]

    process.signal(signal.SIGCONT)
    process.go()
    for ended in process.wait_for_end():
        assert "ProducerFencedError" in ended
    assert [log.state.seq for log in held] == heads

    for log in held:
        log.produce("a", range(20, 30))
        resume(log)
        assert log.values("out-a") == [*range(30)]
        log.check_contiguous("out-a")
