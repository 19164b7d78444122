"""Writers on several machines share entries of a log in a real bucket, with the rights of their roles (MinIO)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from types import SimpleNamespace

import pytest

from spark_eos import Admin, Log
from spark_eos.errors import ObjectNotFoundError, StorePermissionError
from spark_eos.log import paths
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.storage import Settings, open_store
from spark_eos.storage.machines.hint import HINT
from spark_eos.storage.machines.objects import REQUESTS
from spark_eos.testing.cloud_servers import temporary
from spark_eos.testing.processes import environment
from tests.security.roles import policy, values

WRITER = """
import json, sys
from pathlib import Path
from spark_eos import Log, Producer
from spark_eos.storage import Settings
from spark_eos.storage.machines.client import HttpsPeer
from spark_eos.storage.machines.open import NetworkChannel

url, name, settings, stop = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), Path(sys.argv[4])
if name == "cut off":
    HttpsPeer.exchange = NetworkChannel._open = lambda *_: None
sent = 0
with Producer(Log.open(url, settings=Settings({**settings, "machines.listen": "127.0.0.1"}))) as producer:
    while not stop.exists():
        producer.send("t", f"{name} {sent}".encode(), partition=0).result()
        sent += 1
print(sent)
"""
LONGEST_S = 240
NAMES = "a", "b", "cut off"


def joined(role, more, path):
    """The policy of a role with the statements of another file."""
    return {
        **policy(role, path),
        "Statement": [*policy(role, path)["Statement"], *policy(more, path)["Statement"]],
    }


@pytest.fixture
def place(minio_server, tmp_path):
    path = uuid.uuid4().hex[:8]
    found = SimpleNamespace(url=f"{minio_server.url}/{path}", path=path, server=minio_server)
    found.settings = temporary(minio_server, policy("writer", path))
    Admin(found.url, found.settings).create_topic("t")
    found.stop = tmp_path / "stop"
    return found


def write_on_machines(place, settings, tmp_path, until):
    """Three writers, each on what is a machine for it, until that is so; how many records each has sent.

    One of the machines reaches no other one.
    """
    running = []
    for name in NAMES:
        (tmp_path / name).mkdir()
        command = [sys.executable, "-c", WRITER, place.url, name, json.dumps({**settings}), str(place.stop)]
        machine = environment(TMPDIR=str(tmp_path / name))  # Where processes of one machine meet.
        running.append(subprocess.Popen(command, env=machine, text=True, stdout=subprocess.PIPE))
    try:
        end = time.monotonic() + LONGEST_S
        while not until():
            assert time.monotonic() < end, "it takes too long"
            assert all(one.poll() is None for one in running)
            time.sleep(0.2)
        place.stop.touch()
        return [int(one.communicate(timeout=LONGEST_S)[0]) for one in running]
    finally:
        for one in running:
            one.kill()
            one.wait()


def writers_of_entries(place):
    """How many requests are in each entry."""
    store, log = (
        open_store(place.url, place.server.settings),
        Log.open(place.url, settings=place.server.settings),
    )
    found = []
    for seq in range(2, log.state.seq + 1):
        name = paths.entry(seq, log.state.entries_per_folder)
        if (data := store.read(name)).size:
            found.append(len(decode_entry(data, seq, name).requests))
    return found


def test_machines_share_entries_and_a_reader_cannot_hand_over(place, minio_server, tmp_path):
    settings = temporary(minio_server, joined("writer", "machines-writer", place.path))
    store = open_store(place.url, minio_server.settings)
    seen = set()

    def shared():
        """Entries are, and the machine that is cut off has written two objects, and deleted one of them."""
        seen.update(info.name for info in store.list(REQUESTS))
        return max(writers_of_entries(place), default=0) > 1 and len(seen) > 1

    sent = write_on_machines(place, settings, tmp_path, shared)
    assert len([*store.list(REQUESTS)]) < len(seen)
    wanted = sorted(
        f"{name} {at}".encode() for name, count in zip(NAMES, sent, strict=True) for at in range(count)
    )
    assert sorted(values(place.url, place.settings, partitions=1)) == wanted
    reader = temporary(minio_server, joined("reader", "machines-reader", place.path))
    assert sorted(values(place.url, reader, partitions=1)) == wanted
    with pytest.raises(StorePermissionError):
        open_store(place.url, Settings(reader)).read(HINT)


def test_without_the_right_to_lead_every_machine_writes_for_itself(place, tmp_path):
    sent = write_on_machines(place, place.settings, tmp_path, lambda: len(writers_of_entries(place)) > 30)
    assert len(values(place.url, place.settings, partitions=1)) == sum(sent)
    assert {*writers_of_entries(place)} == {1}
    with pytest.raises(ObjectNotFoundError):
        open_store(place.url, place.server.settings).read(HINT)
