"""A handle on a log in processes that were forked: the same log, with locks, doubts and a place to meet of its own."""

import copy
import os
import pickle
import random
import shutil

import pyarrow as pa
import pytest

from spark_eos.errors import DivergedLogError, IllegalStateError, NotALogError, StoreUnavailableError
from spark_eos.log.clock import SYSTEM
from spark_eos.log.log import _SHARED_LOCK, Log
from spark_eos.log.topics import new_topic
from spark_eos.storage.posix.store import PosixStore
from tests.forking import forks_allowed, in_child

ROWS = pa.table({"value": pa.array([b"x"] * 10, pa.binary())})


def topic(name):
    return lambda _state: (new_topic(name, 1, None, None, None),)


def test_a_child_reads_and_writes_with_the_handles_of_its_parent(tmp_path):
    log = Log.open_or_create(tmp_path)
    twin, shared = log.without_maintenance(), Log.shared(tmp_path)

    def child():
        for number, one in enumerate((log, twin, shared, Log.shared(tmp_path))):
            one.commit(topic(f"child-{number}"))
        assert twin._parts is log._parts
        return log.follow().seq

    last = in_child(child)
    assert log.follow().seq == last
    assert {f"child-{number}" for number in range(4)} == set(log.state.topics)


def test_forked_processes_do_not_wait_alike():
    """They would meet again at every try."""
    before = random.getstate()
    number = SYSTEM.jitter()

    def child():
        random.setstate(before)
        return SYSTEM.jitter()

    random.setstate(before)
    assert len({number, SYSTEM.jitter(), in_child(child), in_child(child)}) == 4


def test_locks_that_other_threads_hold_are_free_in_a_child(tmp_path):
    log = Log.open_or_create(tmp_path)
    parts = log._parts
    held = [parts.committer._turn, parts.committer._queue, parts.tail._lock, parts.pages._lock]
    held += [parts.maintenance._lock, parts.expiration_task._lock]
    for lock in held:
        assert lock.acquire(timeout=60)

    def child():
        Log.shared(tmp_path)
        log.commit(topic("t"))
        log.expire_overdue(everything=True)
        log.maintenance.retire(log.state, 1)
        return log.state.seq

    with _SHARED_LOCK:
        seq = in_child(child)
    assert seq == 1
    for lock in held:
        lock.release()
    assert log.follow().seq == 1


@pytest.mark.parametrize("moment", ["drafting", "creating"])
def test_a_thread_that_forks_in_the_middle_of_a_commit_is_not_told_twice(tmp_path, moment):
    """As the handler of a signal may. In the child the call goes on, too, and must not come to the same entry."""

    class Store(PosixStore):
        def create(self, name, data):
            if moment == "creating" and len(children) == 1 and name.startswith("_log/"):
                children.append(fork())
                raise StoreUnavailableError("try again")
            super().create(name, data)

    def propose(state):
        if not children:
            children.append(fork() if moment == "drafting" else None)
        return topic("t")(state)

    def fork():
        read, write = os.pipe()
        with forks_allowed():
            pid = os.fork()
        if pid == 0:
            answer.append(write)
        return read, write

    answer, children = [], []
    log = Log.open_or_create(Store(tmp_path))
    try:
        log.commit(propose)
        told = b"committed"
    except Exception as error:  # noqa: BLE001
        told = repr(error).encode()
    if answer:
        os.write(answer[0], told)
        os._exit(0)
    read, write = children[-1]
    os.close(write)
    with os.fdopen(read, "rb") as file:
        assert file.read().startswith(b"IllegalStateError('commit: ")
    os.wait()
    assert told == b"committed"
    assert set(log.follow().topics) == {"t"}


def test_a_request_in_doubt_is_its_makers_to_repeat(tmp_path):
    class Silent(PosixStore):
        def create(self, name, data):
            super().create(name, data)
            if name.startswith("_log/"):
                raise KeyboardInterrupt

    Log.create(tmp_path)
    log = Log.open(Silent(tmp_path))
    request_id = bytes(16)
    with pytest.raises(KeyboardInterrupt):
        log.commit(topic("t"), request_id=request_id)

    error = in_child(lambda: log.commit(topic("t"), request_id=request_id))
    assert isinstance(error, IllegalStateError)
    assert "only that one can repeat it" in str(error)
    grandchild = in_child(lambda: in_child(lambda: log.commit(topic("t"), request_id=request_id)))
    assert isinstance(grandchild, IllegalStateError)
    assert log.commit(topic("t"), request_id=request_id).seq == 1


def test_rows_that_are_being_staged_stay_the_parents(tmp_path):
    log = Log.open_or_create(tmp_path)
    log.ensure_topic("t")
    half = log.stage(log.topic("t"), buffer_bytes=1)
    done = log.stage(log.topic("t"))
    half.append(ROWS, 0)
    half.append(ROWS, 0)
    done.append(ROWS, 0)
    (file,) = done.finish()
    half.append(ROWS.append_column("key", ROWS.column("value")), 0)  # Not in the columns of the file so far.
    half.append(ROWS, 0)
    assert half._staged
    assert list((tmp_path / "_tmp").iterdir())

    def child():
        for call in (lambda: half.append(ROWS, 0), half.finish):
            with pytest.raises(IllegalStateError, match="forked"):
                call()
        half.abandon()
        with log.stage(log.topic("t")) as own:
            own.append(ROWS, 0)
            (mine,) = own.finish()
        return mine.file.name

    name = in_child(child)
    assert name != file.file.name
    files = half.finish()
    assert sum(batch.count for whole in files for batch in whole.batches) == 40
    log.check_visible((*files, file))


def test_requests_of_a_child_have_names_of_their_own(tmp_path):
    log = Log.open_or_create(tmp_path)

    def drawn():
        return log.clock.unique(), log.clock.jitter(), log._committer._group._store.group_channel("x")._own

    children = [in_child(drawn) for _ in range(4)]
    for index, mine in enumerate(drawn()):
        assert len({mine, *(theirs[index] for theirs in children)}) == 5


def test_a_fork_of_which_python_is_not_told_commits_nothing(nursery, tmp_path):
    """By a library in C: nothing was made again in the child, not even the locks."""
    assert "open the log again" in nursery.run("log/forks_in_c", tmp_path).stdout


def test_what_was_seen_long_ago_was_not_seen_at_the_fork(tmp_path):
    """Else a child would believe a free slot that was retired and deleted meanwhile."""
    log = Log.open_or_create(tmp_path)
    assert in_child(lambda: log._tail.as_of) == log._tail.as_of


def test_a_child_finds_that_the_folder_was_put_back(tmp_path):
    """By what its parent knew of it: here back to the beginning, where nothing else tells."""
    log = Log.open_or_create(tmp_path / "log")
    shutil.copytree(tmp_path / "log", tmp_path / "backup")
    log.commit(topic("t"))

    def child():
        shutil.rmtree(tmp_path / "log")
        shutil.copytree(tmp_path / "backup", tmp_path / "log")
        log.commit(topic("u"))

    assert isinstance(in_child(child), DivergedLogError)


# -- Copies and pickles -------------------------------------------------------------------------------


def test_a_copy_is_the_same_handle_and_a_pickle_is_opened_anew(tmp_path):
    log = Log.open_or_create(tmp_path)
    quiet = log.without_maintenance()
    assert copy.copy(log)._parts is log._parts
    assert quiet._parts is log._parts
    for one in (log, quiet):
        for there in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
            assert (there.url, there.log_id, there.does_maintenance) == (
                log.url,
                log.log_id,
                one.does_maintenance,
            )
            assert there._parts is not log._parts


def test_a_pickle_of_a_log_is_of_that_log(tmp_path):
    pickled = pickle.dumps(Log.create(tmp_path / "log"))
    shutil.rmtree(tmp_path / "log")
    with pytest.raises(NotALogError):
        pickle.loads(pickled)
    Log.create(tmp_path / "log")
    with pytest.raises(NotALogError, match="another one is there"):
        pickle.loads(pickled)


def test_a_log_in_memory_is_one_process_alone():
    log = Log.open_or_create("memory://forks")
    error = in_child(lambda: log.commit(topic("t")))
    assert isinstance(error, IllegalStateError)
    assert "use a folder" in str(error)
    assert isinstance(in_child(lambda: Log.open("memory://forks")), IllegalStateError)
    assert in_child(lambda: Log.open_or_create("memory://of-the-child").state.seq) == 0
    with pytest.raises(IllegalStateError, match="use a folder"):
        pickle.dumps(log)
    assert copy.deepcopy(log).log_id == log.log_id


def test_a_committer_and_a_writer_are_not_copied(tmp_path):
    log = Log.open_or_create(tmp_path)
    log.ensure_topic("t")
    for one in (log._committer, log.stage(log.topic("t"))):
        with pytest.raises(IllegalStateError, match="cannot be copied"):
            copy.copy(one)
