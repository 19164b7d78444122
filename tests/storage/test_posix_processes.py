"""`PosixStore` among other processes: races, kills, other users."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_eos.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
)
from spark_eos.storage import PosixStore
from spark_eos.testing.store_contract import together
from tests.starting import run, start
from tests.storage.test_posix import files

STRICTLY = ("-W", "error")


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users can reach, unlike ``tmp_path``."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def racers(store: PosixStore) -> Iterator[dict[str, subprocess.Popen[str]]]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    started = {name: start("storage/races", store.root, name, flags=STRICTLY, **pipes) for name in "ab"}
    yield started
    for racer in started.values():
        racer.kill()
        racer.communicate()


def test_two_processes_race_and_each_name_has_one_winner(
    store: PosixStore, racers: dict[str, subprocess.Popen[str]]
) -> None:
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


def test_a_killed_process_leaves_no_half_object(tmp_path: Path) -> None:
    done = run("storage/killed_at_each_call", tmp_path, flags=STRICTLY)
    assert done.stderr == ""
    roots = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
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


def test_forbidden_folders(shared_folder: Path) -> None:
    (shared_folder / "a").write_bytes(b"1")
    (shared_folder / "secret").write_bytes(b"1")
    (shared_folder / "secret").chmod(0)
    (shared_folder / "_tmp").mkdir(mode=0o555)
    shared_folder.chmod(0o555)
    try:
        done = run("storage/forbidden", shared_folder, flags=STRICTLY)
    finally:
        shared_folder.chmod(0o755)
    assert done.stderr == ""
    assert done.stdout.split() == ["denied"] * 6
