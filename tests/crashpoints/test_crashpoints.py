from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from spark_eos import Producer
from spark_eos.errors import (
    ConfigError,
    EosLogError,
    IllegalStateError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StorageError,
    StoreUnavailableError,
)
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.protocol.invariants import InvariantError, apply_checked
from spark_eos.storage import MemoryStore
from spark_eos.testing import CrashStore, Trouble, check_log, crash_points, crashpoints
from spark_eos.testing.crash_store import Crashed
from spark_eos.testing.crashpoints import CrashPointsError


def nothing(_store):
    pass


def two_steps(store):
    with suppress(EosLogError):
        store.create("a", b"1")
    with suppress(EosLogError):
        store.read("a")
    store.note("read")
    with suppress(EosLogError), store.upload("b") as file:
        file.write(b"22")


def names_of(store):
    return {info.name for info in store.list("")}


def test_every_operation_meets_every_trouble_that_it_can():
    points = [*crash_points(two_steps, nothing, nothing)]
    assert [point.key for point in points] == [
        *(f"0:{trouble.value}" for trouble in Trouble),
        "1:crash_before",
        "1:crash_after",
        "1:unavailable",
        *(f"2:{trouble.value}" for trouble in Trouble),
    ]
    assert {(point.index, point.operation, point.name) for point in points} == {
        (0, "create", "a"),
        (1, "read", "a"),
        (2, "upload", "b"),
    }
    assert [point.number for point in points] == [*range(1, 16)]
    assert {point.total for point in points} == {15}


@pytest.mark.parametrize(
    ("trouble", "done", "error"),
    [
        (Trouble.CRASH_BEFORE, False, Crashed),
        (Trouble.CRASH_AFTER, True, Crashed),
        (Trouble.REPLY_LOST, True, OutcomeUnknownError),
        (Trouble.REQUEST_LOST, False, OutcomeUnknownError),
        (Trouble.UNAVAILABLE, False, StoreUnavailableError),
        (Trouble.CONFLICT, False, ObjectExistsError),
    ],
)
@pytest.mark.parametrize("operation", ["create", "upload", "overwrite", "delete"])
def test_what_each_trouble_does(operation, trouble, done, error):
    inner = MemoryStore()
    if operation in {"overwrite", "delete"}:
        inner.create("a", b"old")
    store = CrashStore(inner, at=0, trouble=trouble)
    calls = {
        "create": lambda: store.create("a", b"new"),
        "upload": lambda: upload(store, "a", b"new"),
        "overwrite": lambda: store.overwrite("a", b"new"),
        "delete": lambda: store.delete("a"),
    }
    with pytest.raises(error):
        calls[operation]()
    left = {name: inner.read(name).to_pybytes() for name in names_of(inner)}
    before = {"a": b"old"} if operation in {"overwrite", "delete"} else {}
    after = {} if operation == "delete" else {"a": b"new"}
    assert left == (after if done else before)
    assert store.is_dead == trouble.is_crash


def upload(store, name, body):
    with store.upload(name) as file:
        file.write(body)


def test_a_refusal_is_lost_with_the_reply():
    inner = MemoryStore()
    inner.create("a", b"theirs")
    with pytest.raises(OutcomeUnknownError):
        CrashStore(inner, at=0, trouble=Trouble.REPLY_LOST).create("a", b"ours")


def test_the_dead_do_nothing_any_more():
    tried = []

    def job(store):
        def try_all():
            for call in (
                lambda: store.create("late", b""),
                lambda: upload(store, "late", b""),
                lambda: store.overwrite("a", b"late"),
                lambda: store.delete("a"),
                lambda: store.read("a"),
                lambda: store.size("a"),
                lambda: store.list(""),
                lambda: store.note("late"),
            ):
                with pytest.raises(Crashed):
                    call()
                tried.append(1)

        store.create("a", b"1")
        try:
            store.create("b", b"2")
        finally:
            if store.is_dead:
                try_all()
                thread = threading.Thread(target=try_all)
                thread.start()
                thread.join()

    def check(store):
        assert store.read("a").to_pybytes() == b"1"
        assert names_of(store) <= {"a", "b"}
        assert "late" not in store.notes

    assert [*crash_points(job, nothing, check, troubles=[Trouble.CRASH_AFTER], only="1:crash_after")]
    assert len(tried) == 16


def test_a_thread_ends_with_its_process_without_a_word():
    ended = threading.Event()

    def work(store):
        try:
            while True:
                store.read("a")
        finally:
            ended.set()

    def job(store):
        store.create("a", b"")
        thread = threading.Thread(target=work, args=(store,))
        if store.process or store._at < 0:
            return
        thread.start()
        thread.join(60)

    assert [*crash_points(job, nothing, nothing, troubles=[])] == []
    store = CrashStore(MemoryStore(), at=1, trouble=Trouble.CRASH_BEFORE)
    job(store)
    assert store.is_dead
    assert ended.is_set()  # And pytest, for which warnings are errors, has nothing to say.


def test_what_else_goes_wrong_in_a_thread_is_heard_of(monkeypatch):
    heard = []
    monkeypatch.setattr(threading, "excepthook", lambda args: heard.append(args.exc_type))
    for _ in range(2):
        assert [*crash_points(nothing, nothing, nothing)] == []
    for error in (Crashed, ZeroDivisionError):
        thread = threading.Thread(target=raise_, args=(error,))
        thread.start()
        thread.join()
    assert heard == [ZeroDivisionError]


def raise_(error):
    raise error


def test_a_crash_that_a_job_swallows_is_one():
    seen = []

    def job(store):
        with suppress(BaseException):
            store.create("a", b"")

    [*crash_points(job, lambda store: seen.append(store.process), nothing, only="0:crash_before")]
    assert seen == [1]


def test_recovery_is_for_those_who_did_not_end():
    recovered, checked = [], []

    def job(store):
        if store.process == 0:
            store.create("a", b"")
            with suppress(EosLogError):
                store.delete("b")

    def recover(store):
        recovered.append(names_of(store))

    points = [*crash_points(job, recover, lambda store: checked.append(store.process))]
    dead = [point for point in points if point.trouble.is_crash or point.index == 0]
    assert len(recovered) == len([point for point in dead if point.same_as is None])
    assert checked.count(1) == 4  # Undisturbed, and the three that the second operation shrugs off.
    assert checked.count(2) == len(recovered)


def test_an_error_of_the_job_itself_is_a_failure():
    def job(store):
        try:
            store.create("a", b"")
        except StoreUnavailableError as error:
            raise ValueError("not handled") from error

    with pytest.raises(CrashPointsError, match=r"0:unavailable .*ValueError: not handled") as caught:
        [*crash_points(job, nothing, nothing)]
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_error_without_trouble_is_raised_as_it_is():
    def fails(_store):
        raise ObjectNotFoundError("job")

    with pytest.raises(ObjectNotFoundError, match="job"):
        [*crash_points(fails, nothing, nothing)]
    with pytest.raises(ObjectNotFoundError, match="job"):
        [*crash_points(nothing, nothing, fails)]


def loses(store):
    """It promises too early."""
    store.create("a", b"")
    store.note("b is there")
    store.create("b", b"")


def keeps_promises(store):
    assert "b is there" not in store.notes or "b" in names_of(store)


def test_failures_are_named_with_the_way_to_run_one_alone():
    points = []
    with pytest.raises(CrashPointsError) as caught:
        points.extend(crash_points(loses, nothing, keeps_promises))
    failed = [point.key for point in points if point.failure is not None]
    assert failed == ["1:crash_before", "1:request_lost", "1:unavailable", "1:conflict"]
    text = str(caught.value)
    assert text.startswith(
        "4 of 12 crash points failed:\n  [7/12] 1:crash_before (create 'b'): FAILED: AssertionError"
    )
    assert text.endswith("crash_points(..., only='1:crash_before')")
    with pytest.raises(CrashPointsError, match=r"^1 of 1 crash points failed"):
        [*crash_points(loses, nothing, keeps_promises, only="1:crash_before")]
    assert len([*crash_points(loses, nothing, keeps_promises, only="0:reply_lost")]) == 1


def test_many_failures_are_cut_short():
    def job(store):
        store.note("b is there")
        for _ in range(10):
            with suppress(StorageError):
                store.create("a", b"")
        store.create("b", b"")

    with pytest.raises(CrashPointsError, match=r"54 of 66(.*\n){21}  ... and 34 more"):
        [*crash_points(job, nothing, keeps_promises)]


def test_a_crash_that_leaves_what_another_left_is_run_once_and_judged_for_both():
    runs = []

    def job(store):
        runs.append(1)
        store.read("seed")
        store.size("seed")
        store.create("a", b"")
        store.note("b is there")
        store.read("a")
        store.create("b", b"")

    def factory():
        store = MemoryStore()
        store.create("seed", b"")
        return store

    def verdicts(**options):
        try:
            for point in crash_points(job, nothing, keeps_promises, factory, **options):
                found[point.key] = (point.failure is None, point.same_as)
        except CrashPointsError:
            pass

    found = {}
    verdicts()
    together, found = found, {}
    assert len(runs) == 1 + len([key for key, (_, same) in together.items() if same is None])
    assert together["1:crash_after"] == (True, "0:crash_before")
    # The note makes a difference, though the objects are the same.
    assert together["2:crash_after"] == (True, None)
    assert together["3:crash_before"] == (False, None)
    assert together["4:crash_before"] == (False, "3:crash_before")
    for key in together:
        verdicts(only=key)
    assert {key: good for key, (good, _) in found.items()} == {
        key: good for key, (good, _) in together.items()
    }


@pytest.mark.parametrize("only", ["9:crash_before", "0:reply_lost", "0:nothing"])
def test_a_point_that_is_none(only):
    def job(store):
        store.list("")

    with pytest.raises(ConfigError, match="is no crash point: there are 1 operations"):
        [*crash_points(job, nothing, nothing, only=only)]


def test_troubles_are_chosen():
    points = crash_points(two_steps, nothing, nothing, troubles=[Trouble.REPLY_LOST])
    assert [point.key for point in points] == ["0:reply_lost", "2:reply_lost"]


@pytest.mark.parametrize("longer", [True, False])
def test_a_job_that_differs_from_run_to_run_is_refused(longer):
    runs = []

    def job(store):
        runs.append(1)
        for _ in range(2 if longer == (len(runs) == 1) else 1):
            store.list("")
        store.create("a", b"")

    with pytest.raises(IllegalStateError, match=r"operation [01] was .*is .* now"):
        [*crash_points(job, nothing, nothing, troubles=[Trouble.REPLY_LOST, Trouble.UNAVAILABLE])]


def test_the_example_of_the_module():
    def job(store):
        producer = Producer(Log.open_or_create(store), {"transactional.id": "job"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("topic", "value")
        producer.commit_transaction()
        store.note("sent")

    def check(store):
        state = check_log(store)
        topic = state.topics.get("topic")
        there = bool(topic and state.partitions[topic.topic_id, 0].end)
        seen.add((there, "sent" in store.notes))

    seen = set()
    points = [*crash_points(job, nothing, check)]
    assert len(points) > 50
    assert seen == {(False, False), (True, False), (True, True)}


def written():
    store = MemoryStore()
    producer = Producer(Log.create(store))
    producer.send("t", "value")
    producer.close()
    return store


def test_check_log_reads_all_of_it():
    store = written()
    assert check_log(store) == Log.open(store).state
    assert check_log(MemoryStore()).seq == -1


def test_check_log_misses_a_file():
    store = written()
    [name] = [info.name for info in store.list(paths.DATA)]
    store.overwrite(name, b"short")
    with pytest.raises(AssertionError, match=r"data/t-.*at offset 0 with [0-9]+ bytes, has 5 bytes"):
        check_log(store)
    store.delete(name)
    with pytest.raises(AssertionError, match=r"data/t-.*is missing"):
        check_log(store)


def test_check_log_names_the_entry_that_breaks_an_invariant(monkeypatch):
    def broken(state, entry):
        if entry.seq == 2:
            raise InvariantError("the moon fell down")
        return apply_checked(state, entry)

    store = written()
    monkeypatch.setattr(crashpoints, "apply_checked", broken)
    with pytest.raises(AssertionError, match=f"{paths.entry(2)}: the moon fell down"):
        check_log(store)
