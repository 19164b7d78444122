"""One pass of everything: order, dry runs, errors, and what this process did not create itself."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos import Admin, Producer
from spark_eos.clients.consumer.heartbeat import heartbeat_name
from spark_eos.errors import ConfigError, NotALogError, StoreUnavailableError
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.log.schemas.versions import new_ids, numbered, with_ids
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.maintenance.maintain import Maintainer, size_text
from spark_eos.maintenance.steps import STEPS, check_steps
from spark_eos.protocol.actions import AlterTopic
from spark_eos.protocol.arrow_fields import SCHEMA_VERSION
from spark_eos.storage import MemoryStore
from spark_eos.testing import Fault, FaultyStore

from .world import DAY_S, another, append, created, left_behind, listed, values

pytestmark = pytest.mark.usefixtures("small_pages")


@pytest.fixture
def log():
    """A log without any maintenance so far."""
    log = created(MemoryStore())
    log.does_maintenance = False
    return log


def told(**steps):
    """Stand-ins for the steps that write segments again, which note that they were called."""
    calls = []

    def step(name):
        def run(_log, *, dry_run, tell):
            tell(name)
            calls.append((name, dry_run))
            return "done"

        return run

    return calls, {name: step(name) for name in ("roll", "compact")} | steps


def maintained(log, **options):
    """A pass of another process, to which everything is old enough."""
    other = another(log, b"m")
    other.does_maintenance = False
    given = {"min_age_s": 0, "more": told()[1], **options}
    return {done.step: done for done in Maintainer(other, **given).run()}


def retired(log):
    return [
        info.name
        for info in log.store.list(paths.LOG)
        if not info.size and not info.name.startswith((paths.SNAPSHOTS, paths.INDEX))
    ]


def test_a_pass_does_everything_in_order(log):
    log.ensure_topic("old")
    append(log, *range(5), topic="old", timestamp_ms=1)
    append(log, *range(40))
    left_behind(log, 100)
    Admin(log).alter_group_offsets("g", {("t", 0): 1})
    log.store.create("_probe/1", b"")
    log.store.overwrite(heartbeat_name("g", "m"), b"1")
    found = maintained(log, heartbeat_name=heartbeat_name)
    assert tuple(found) == STEPS
    texts = {step: done.text for step, done in found.items()}
    assert texts["snapshot"] == "stored the state after entry 45"
    assert texts["retire"] == "retired 40 entries"
    assert texts["retention"] == "moved log starts: old-0 from 0 to 5"
    assert texts["vacuum"].startswith("deleted 6 data files, 1 heartbeat, ")
    assert newest_snapshot(log.store).seq == 45
    assert len(retired(log)) == 40
    assert values(another(log)) == [*range(40)]
    assert values(another(log), "old") == []
    maintained(log)  # The first pass has made entries itself.
    again = maintained(log)
    assert {done.text for step, done in again.items() if step not in {"roll", "compact"}} == {
        "nothing to do",
        "kept",
    }


@pytest.mark.parametrize("count", [4, 14])
def test_a_snapshot_of_somebody_elses_boundary(log, count):
    """Who created the boundary has died, or does no maintenance."""
    append(log, *range(count))
    assert newest_snapshot(log.store) is None
    maintained(log, only=["snapshot"])
    assert newest_snapshot(log.store).seq == count + 1
    assert values(another(log)) == [*range(count)]


def test_a_snapshot_is_kept_up_by_who_began_at_one(log):
    append(log, *range(13))
    keeper = another(log, b"m")
    maintainer = Maintainer(keeper, only=["snapshot"])
    [*maintainer.run()]
    append(log, *range(13, 22))
    (done,) = maintainer.run()
    assert done.text.endswith("after entry 20")
    assert newest_snapshot(log.store).seq == 20
    (done,) = maintainer.run()
    assert done.text == "nothing to do"
    late = another(log)
    (done,) = Maintainer(late, only=["snapshot"]).run()
    assert done.text == "nothing to do", "it has opened the log there, and knows no later boundary"


def test_old_snapshots_that_are_left_over_go(log):
    """Who stored the newest one died before it dropped the others."""
    for number in range(4):
        append(log, *range(5 * number, 5 * number + 5))
        log.maintenance._snapshots.write(lambda: None)
    assert len(listed(log, paths.SNAPSHOTS)) == 4
    maintained(log, only=["snapshot"])
    assert listed(log, paths.SNAPSHOTS) == [paths.snapshot(15), paths.snapshot(20)]


def test_entries_are_retired_by_who_has_stored_no_snapshot_itself(log):
    append(log, *range(40))
    maintained(log, only=["snapshot"])
    assert maintained(log, only=["retire"], dry_run=True)["retire"].text == "would retire 35 entries"
    assert retired(log) == []
    found = maintained(log, only=["retire"])
    assert found["retire"].text == "retired 35 entries"
    assert retired(log) == [paths.entry(seq) for seq in range(1, 36)]
    assert values(another(log)) == [*range(40)]


def test_nothing_is_retired_for_a_snapshot_that_is_not_settled(log):
    """Its writer may have died before it was durable: after a power cut nothing would stand for the entries."""
    append(log, *range(40))
    maintained(log, only=["snapshot"])
    store = FaultyStore(log.store)
    order = []
    store.ensure_durable = lambda name: order.append(("ensure_durable", name))
    retire = store.retire
    store.retire = lambda name: (order.append(("retire", name)), retire(name))
    other = Log.open(store, log.clock)
    [*Maintainer(other, only=["retire"]).run()]
    assert order[0] == ("ensure_durable", paths.snapshot(40))
    assert len(order) == 36


def test_nothing_is_retired_for_a_damaged_snapshot(log):
    append(log, *range(14))
    maintained(log, only=["snapshot"])
    append(log, *range(14, 40))
    log.store.create(paths.snapshot(40), b"damaged")
    maintained(log, only=["retire"])
    assert retired(log) == [paths.entry(seq) for seq in range(1, 11)]
    assert values(another(log)) == [*range(40)]


def test_only_what_is_chosen(log):
    append(log, *range(40))
    left_behind(log, 100)
    calls, more = told()
    assert [*maintained(log, only=["roll", "retention"], more=more)] == ["retention", "roll"]
    assert calls == [("roll", False)]
    assert newest_snapshot(log.store) is None
    assert len(listed(log, paths.DATA)) == 41


def test_a_dry_run_changes_nothing(log):
    log.ensure_topic("old")
    append(log, 0, 1, topic="old", timestamp_ms=1)
    append(log, *range(40))
    left_behind(log, 100)
    before = {info.name: info.size for info in log.store.list("")}
    calls, more = told()
    found = maintained(log, dry_run=True, more=more)
    assert {info.name: info.size for info in log.store.list("")} == before
    texts = {step: done.text for step, done in found.items()}
    assert texts["snapshot"] == "would store the state after entry 45"
    assert texts["retire"] == "would retire 40 entries"
    assert texts["retention"] == "would move log starts: old-0 from 0 to 2"
    assert texts["vacuum"].startswith("would delete 1 data file ")
    assert calls == [("roll", True), ("compact", True)]
    real = {step: done.text for step, done in maintained(log).items()}
    assert real["snapshot"] == "stored the state after entry 45"
    assert real["retire"] == "retired 40 entries"


def test_an_error_ends_its_step_and_not_the_pass(log):
    append(log, *range(40))
    left_behind(log, 100)
    store = FaultyStore(log.store)
    other = Log.open(store, log.clock)
    store.inject(Fault.FAIL_BEFORE, "create", f"{paths.SNAPSHOTS}*")
    found = {done.step: done for done in Maintainer(other, min_age_s=0, more=told()[1]).run()}
    assert found["snapshot"].text.startswith("failed: ")
    assert found["snapshot"].error is not None
    assert found["vacuum"].text.startswith("deleted 1 data file ")


def test_who_does_not_wait_deletes_in_a_later_pass(log):
    append(log, *range(4))
    left_behind(log, 100)
    keeper = another(log, b"m")
    maintainer = Maintainer(keeper, only=["vacuum"], min_age_s=0)
    (done,) = maintainer.run(wait=False)
    assert done.text == "1 object until readers have finished"
    keeper.clock.now += 60
    (done,) = maintainer.run(wait=False)
    assert done.text.startswith("deleted 1 data file (")
    assert len(listed(log, paths.DATA)) == 4


def test_writers_are_given_a_day(log):
    append(log, *range(4))
    left_behind(log, 100)
    other = another(log, b"m")
    (done,) = Maintainer(other, only=["vacuum"]).run()
    assert done.text == "nothing to do"
    other.clock.now += DAY_S
    (done,) = Maintainer(other, only=["vacuum"]).run()
    assert done.text.startswith("deleted 1 data file (")


def test_a_log_that_was_removed(log):
    other = another(log, b"m")
    for info in [*log.store.list("")]:
        log.store.delete(info.name)
    with pytest.raises(NotALogError, match="removed or replaced"):
        next(Maintainer(other).run())


def test_unknown_steps():
    assert check_steps(["vacuum", "snapshot", "vacuum"]) == ("snapshot", "vacuum")
    with pytest.raises(ConfigError, match="did you mean vacuum"):
        check_steps(["vacum"])
    with pytest.raises(ConfigError, match="known are snapshot, retire"):
        check_steps(["everything"])


def test_sizes_for_people():
    assert [size_text(size) for size in (0, 1, 999, 1000, 3_449_000, 2e9, 5e13)] == [
        *("0 bytes", "1 byte", "999 bytes", "1.0 kB", "3.4 MB", "2.0 GB", "50.0 TB")
    ]


def test_the_share_of_writers_settles_what_another_has_stored(log):
    """Entries are retired for a snapshot that was only seen: it has to be durable."""
    store = FaultyStore(log.store)
    other = Log.open(store, log.clock)
    append(log, *range(4))
    other.follow()
    log.maintenance.snapshot()
    append(log, *range(4, 10))
    other.follow()
    assert store.count("ensure_durable", paths.snapshot(5)) == 1
    assert other.maintenance._snapshots.stored == 5


def test_a_snapshot_that_cannot_be_settled_is_not_counted_on(log):
    store = FaultyStore(log.store)
    other = Log.open(store, log.clock)
    append(log, *range(4))
    other.follow()
    log.maintenance.snapshot()
    append(log, *range(4, 10))
    store.ensure_durable = lambda _name: (_ for _ in ()).throw(StoreUnavailableError("down"))
    other.follow()
    assert other.maintenance._snapshots.stored == -1


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_topic_of_a_newer_version_is_let_alone(policy):
    """Its rows can be read by that version: here they are no trouble, whatever was to be done with them."""
    log = created(MemoryStore())
    config = {"cleanup.policy": policy, "min.cleanable.dirty.ratio": 0, "key.columns": "a"}
    Admin(log).create_topic("new", 1, config, schema=pa.schema([pa.field("a", pa.int64(), False)]))
    with Producer(log) as producer:
        for _ in range(12):
            producer.send_arrow("new", pa.table({"a": [1]})).result()
    topic = log.topic("new")
    columns = with_ids(topic).append(numbered(pa.field("b", pa.float16()), new_ids(topic)))
    schema = columns.with_metadata({SCHEMA_VERSION: b"2"}).serialize().to_pybytes()
    log.commit(lambda _: (AlterTopic("new", topic.topic_id, schema=schema),))
    passed = [*Maintainer(log, only=("roll", "compact"), tail_rows=1).run()]
    assert [(done.text, done.error) for done in passed] == [("nothing to do", None)] * 2
