"""Those who are struck, with programs that do nothing, and the disk that can be filled."""

from __future__ import annotations

import os
import sys
import time
import uuid
from pathlib import Path

import pytest

from spark_eos import Producer
from spark_eos.errors import StoreFullError
from spark_eos.log.log import Log
from tests.starting import command
from verification.chaos.actors import Actor, Frozen
from verification.chaos.disk import SmallDisk
from verification.chaos.nemesis import Nemesis, Scene
from verification.processes import RUN, Process, marked


@pytest.fixture
def actors(tmp_path):
    """Makes actors; nothing of them is left behind."""
    made = []
    run_id = uuid.uuid4().hex

    def make(name="client-1", kind="client", notes=('{"what": "ready"}',)):
        def start(_, number):
            told = tmp_path / f"{name}-{number}.jsonl"
            return command("chaos/sleeps", told, *notes), told

        made.append(Actor(name, kind, start, tmp_path, run_id))
        return made[-1]

    make.run_id = run_id
    yield make
    for actor in made:
        actor.end()
    assert marked(RUN, run_id) == []


def until(condition, actor=None):
    end = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < end
        if actor is not None:
            actor.tick()
        time.sleep(0.02)
    return found


def stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_program_that_was_killed_is_started_again(actors):
    actor = actors()
    (run,) = until(lambda: actor.ready, actor)
    until(lambda: len(run.process.family()) == 2)
    actor.kill(run)
    assert run.process.family() == []
    (again,) = until(lambda: actor.ready, actor)
    assert again is not run
    assert actor.tally.starts == 2
    assert actor.tally.kills == {"client": 1}


def test_killed_alone_it_leaves_its_children_until_it_is_buried(actors):
    actor = actors()
    (run,) = until(lambda: actor.ready, actor)
    until(lambda: len(run.process.family()) == 2)
    actor.kill(run, alone=True)
    assert len(run.process.family()) == 1
    actor.tick()
    assert run.process.family() == []


def test_a_frozen_program_is_not_replaced_and_goes_on(actors):
    actor = actors()
    (run,) = until(lambda: actor.ready, actor)
    scene = Scene([actor], None, None, None, None, None)
    nemesis = Nemesis(scene, 0)
    assert until(lambda: nemesis.strike("freeze client"))
    until(lambda: stopped(run.process.pid))
    assert actor.ready == []
    for _ in range(3):
        actor.tick()
        nemesis.tick()
    assert actor.runs == [run]
    assert nemesis.under_way
    nemesis.end()
    until(lambda: not stopped(run.process.pid))
    assert actor.ready == [run]
    assert nemesis.freezes == 1


def test_a_freeze_ends_by_its_condition_or_its_time():
    now = time.monotonic()
    assert not Frozen("driver", [], now + 600).is_over()
    assert Frozen("driver", [], now - 1).is_over()
    assert Frozen("driver", [], now + 600, lambda: True).is_over()
    assert not Frozen("driver", [], now + 600, lambda: False).is_over()


def test_the_same_seed_does_the_same(actors):
    ready = [actors(f"client-{number}") for number in range(4)]
    for actor in ready:
        until(lambda actor=actor: actor.ready, actor)
    told = []
    for _ in range(2):
        nemesis = Nemesis(Scene(ready, None, None, None, None, None), 5)
        told.append([nemesis.strike("freeze client") for _ in range(3)])
        nemesis.end()
    assert told[0] == told[1]
    other = Nemesis(Scene(ready, None, None, None, None, None), 6)
    assert [other.strike("freeze client") for _ in range(3)] != told[0]
    other.end()


def test_what_runs_tell_is_counted(actors):
    notes = (
        '{"what": "registered", "application": "app-1"}',
        '{"what": "ready"}',
        '{"what": "failed", "error": "ProducerFencedError", "text": ""}',
        '{"what": "failed", "error": "CONCURRENT_STREAM_LOG_UPDATE", "text": ""}',
        '{"what": "failed", "error": "StoreFullError", "text": ""}',
    )
    actor = actors("zombies", "driver", notes)
    (run,) = until(lambda: actor.ready, actor)
    actor.tick()
    assert run.application == "app-1"
    assert (actor.tally.fenced, actor.tally.stopped) == (1, 1)
    assert actor.tally.errors == {"StoreFullError": 1}


def test_a_program_that_does_not_start_is_told(tmp_path):
    missing = tmp_path / "notes"
    actor = Actor("broken", "client", lambda *_: ([sys.executable, "-c", "exit(7)"], missing), tmp_path, "r")
    until(lambda: actor.tally.errors, actor)
    assert actor.tally.errors == {"ended with status 7 before it was ready": 1}
    actor.end()


def test_what_a_program_says_and_its_end(tmp_path):
    process = Process([sys.executable, "-c", "print('here')"], tmp_path / "out", "r")
    until(lambda: not process.running)
    assert process.code == 0
    assert process.text == "here\n"


def test_a_full_disk_refuses_and_goes_on_when_it_is_emptied(tmp_path):
    disk = SmallDisk(tmp_path / "disk")
    try:
        if not disk.possible:
            pytest.skip("only root may mount a file system")
        url = str(disk.folder / "log")
        Log.create(url).ensure_topic("t", 1)
        with Producer(url, {"delivery.timeout.ms": 10_000}) as producer:
            disk.fill(0)
            assert disk.is_full
            refused = producer.send("t", "1" * 9000)
            producer.flush()
            with pytest.raises(StoreFullError):
                refused.result()
            disk.free()
            producer.send("t", "2")
            producer.flush()
        assert disk.fills == 1
        state = Log.open(url).follow()
        assert state.partitions[state.topics["t"].topic_id, 0].end == 1
    finally:
        disk.remove()
    assert not os.path.ismount(disk.folder)
