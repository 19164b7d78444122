"""`PosixStore` among other processes: races, kills, other users."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_eos.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
)
from spark_eos.storage import PosixStore
from spark_eos.testing.store_contract import together


def files(store: PosixStore) -> list[str]:
    """All files under the root, temporary ones too, relative to it."""
    return sorted(str(p.relative_to(store.root)) for p in Path(store.root).rglob("*") if not p.is_dir())


@pytest.fixture
def python() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start Python on a script, with warnings as errors; ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(script: str, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", f"import os, sys\n{script}", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users can reach, unlike ``tmp_path``."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


RACE = """
from spark_eos.errors import ObjectExistsError
from spark_eos.storage import PosixStore

store = PosixStore(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for i in range(200):
    try:
        store.create(f"log/{i}", sys.argv[2].encode() * 1000)
    except ObjectExistsError:
        pass
    else:
        print(i)
"""


def test_two_processes_race_and_each_name_has_one_winner(
    store: PosixStore, python: Callable[..., subprocess.Popen[str]]
) -> None:
    racers = {name: python(RACE, store.root, name) for name in "ab"}
    for racer in racers.values():
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers.values():
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won: dict[str, list[str]] = {}
    for name, racer in racers.items():
        out, err = racer.communicate(timeout=300)
        assert err == ""
        won[name] = out.split()
    assert sorted(won["a"] + won["b"], key=int) == [f"{i}" for i in range(200)]
    for name, slots in won.items():
        for slot in slots:
            assert store.read(f"log/{slot}").to_pybytes() == name.encode() * 1000
    assert len(files(store)) == 200


KILL = """
import signal
from spark_eos.storage import PosixStore

DATA = b"x" * 100_000
CALLS = "open write fsync link unlink close mkdir".split()


def work(store):
    store.create("folder/object", DATA)


def child(root, point):
    # Die around the point-th system call; writes are short, so that some kill in the middle of one.
    calls = 0
    real = {name: getattr(os, name) for name in CALLS}

    def wrap(name):
        def call(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == point:
                os.kill(os.getpid(), signal.SIGKILL)
            if name == "write":
                args = (args[0], args[1][:30_000])
            return real[name](*args, **kwargs)
        return call

    for name in CALLS:
        setattr(os, name, wrap(name))
    work(PosixStore(root))
    os._exit(0)


point = 0
status = None
while status != 0:
    point += 1
    root = f"{sys.argv[1]}/{point}"
    pid = os.fork()
    if pid == 0:
        child(root, point)
    status = os.waitpid(pid, 0)[1]
    assert status in (0, signal.SIGKILL), status
    print(root, status)
"""


def test_a_killed_process_leaves_no_half_object(
    tmp_path: Path, python: Callable[..., subprocess.Popen[str]]
) -> None:
    out, err = python(KILL, tmp_path).communicate(timeout=300)
    assert err == ""
    roots = [line.rsplit(" ", 1) for line in out.splitlines()]
    assert len(roots) > 15
    there = []
    leftovers = 0
    for root, _ in roots:
        store = PosixStore(root)
        leftovers += len(files(store)) - len([*store.list("")])
        try:
            there.append(store.read("folder/object").to_pybytes() == b"x" * 100_000)
        except ObjectNotFoundError:
            assert [*store.list("")] == []
            store.create("folder/object", b"the next one is not disturbed")
        else:
            assert there[-1]
            with pytest.raises(ObjectExistsError):
                store.create("folder/object", b"late")
    assert 1 < len(there) < len(roots)  # some died after the link, some before
    assert leftovers > 3


def test_threads_share_a_new_store(store: PosixStore) -> None:
    assert together(lambda i: store.create(f"{i % 2}/{i % 3}/{i}", b"1")) == [None] * 8
    assert len(files(store)) == 8


FORBIDDEN = """
from spark_eos.errors import StorePermissionError
from spark_eos.storage import PosixStore

store = PosixStore(sys.argv[1])
if os.geteuid() == 0:
    os.setuid(65534)  # root may do anything
for change in (
    lambda: store.create("b", b"1"),
    lambda: store.create("new/b", b"1"),
    lambda: store.overwrite("a", b""),
    lambda: store.delete("a"),
    lambda: PosixStore(sys.argv[1] + "/new").create("b", b"1"),
    lambda: store.read("secret"),
):
    try:
        change()
    except StorePermissionError as error:
        assert sys.argv[1] in str(error)
        print("denied")
assert store.read("a").to_pybytes() == b"1"
"""


def test_forbidden_folders(python: Callable[..., subprocess.Popen[str]], shared_folder: Path) -> None:
    (shared_folder / "a").write_bytes(b"1")
    (shared_folder / "secret").write_bytes(b"1")
    (shared_folder / "secret").chmod(0)
    (shared_folder / "_tmp").mkdir(mode=0o555)
    shared_folder.chmod(0o555)
    try:
        out, err = python(FORBIDDEN, shared_folder).communicate(timeout=300)
    finally:
        shared_folder.chmod(0o755)
    assert err == ""
    assert out.split() == ["denied"] * 6
