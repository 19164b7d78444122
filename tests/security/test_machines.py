"""Writers on several machines share entries of a log in a real bucket, with the rights of their roles.

MinIO enforces the policies of S3. Azurite enforces the letters of shared access signatures, and no conditions. No
server here enforces the documents of Google.
"""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from fnmatch import fnmatchcase
from types import SimpleNamespace

import pytest

from spark_eos import Admin, Log
from spark_eos.errors import ObjectNotFoundError, StorePermissionError
from spark_eos.extensions.machines.hint import HINT
from spark_eos.extensions.machines.objects import REQUESTS
from spark_eos.log import paths
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.storage import Settings, open_store
from tests.security.roles import POLICIES, allowed_by_azure, allowed_by_google, policy, values
from tests.starting import start
from verification.cloud_servers import shared_access, temporary
from verification.processes import environment

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
        machine = environment(TMPDIR=str(tmp_path / name))  # Where processes of one machine meet.
        arguments = place.url, name, json.dumps({**settings}), place.stop
        running.append(start("security/writes_on_a_machine", *arguments, env=machine, stdout=subprocess.PIPE))
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


def request_objects(place):
    return {info.name for info in open_store(place.url, place.server.settings).list(REQUESTS)}


def share_entries(place, settings, tmp_path):
    """Write on machines until entries are shared, and the one that is cut off has written two objects.

    Returns the records that were sent, which are in the log then, and the names of the objects.
    """
    seen = set()

    def shared():
        seen.update(request_objects(place))
        return max(writers_of_entries(place), default=0) > 1 and len(seen) > 1

    sent = write_on_machines(place, settings, tmp_path, shared)
    wanted = sorted(
        f"{name} {at}".encode() for name, count in zip(NAMES, sent, strict=True) for at in range(count)
    )
    assert sorted(values(place.url, place.settings, partitions=1)) == wanted
    return wanted, seen


@pytest.mark.deep
def test_machines_share_entries_and_a_reader_cannot_hand_over(place, minio_server, tmp_path):
    settings = temporary(minio_server, joined("writer", "machines-writer", place.path))
    wanted, seen = share_entries(place, settings, tmp_path)
    assert len(seen & request_objects(place)) < len(seen)
    reader = temporary(minio_server, joined("reader", "machines-reader", place.path))
    assert sorted(values(place.url, reader, partitions=1)) == wanted
    with pytest.raises(StorePermissionError):
        open_store(place.url, Settings(reader)).read(HINT)


@pytest.mark.deep
def test_without_the_right_to_lead_every_machine_writes_for_itself(place, tmp_path):
    sent = write_on_machines(place, place.settings, tmp_path, lambda: len(writers_of_entries(place)) > 30)
    assert len(values(place.url, place.settings, partitions=1)) == sum(sent)
    assert {*writers_of_entries(place)} == {1}
    with pytest.raises(ObjectNotFoundError):
        open_store(place.url, place.server.settings).read(HINT)


# -- Azure and Google ---------------------------------------------------------------------------------


OF_A_LOG = HINT, f"{REQUESTS}a-1", "_group/other", "_groups/g", "_log/00000000000000000000.avro", "data/t/x"
BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"


def document(store, name):
    return json.loads((POLICIES / store / f"{name}.json").read_text("utf-8"))


def on_s3(role, more, right):
    """On which objects two policies together give a right."""
    statements = [one for one in joined(role, more, "PATH")["Statement"] if f"s3:{right}" in one["Action"]]

    def effects(name):
        place = f"arn:aws:s3:::bucket/PATH/{name}"
        return {one["Effect"] for one in statements if any(fnmatchcase(place, to) for to in one["Resource"])}

    return {name for name in OF_A_LOG if effects(name) == {"Allow"}}


def on_google(right, *names):
    """On which objects the bindings of these documents give a right."""
    return {
        name
        for whole in (document("gcs", one) for one in names)
        for binding in whole["bindings"]
        for name in OF_A_LOG
        if f"storage.objects.{right}"
        in whole["roles"][binding["role"].rpartition("/")[2]]["includedPermissions"]
        and allowed_by_google(binding["condition"]["expression"], name)
    }


def on_azure(action, *given, lists=False):
    """On which objects roles give a right, each with the condition of its assignment, if it has one."""
    return {
        name
        for role, assigned in given
        for name in OF_A_LOG
        if f"{BLOBS}/{action}" in document("azure", role)["DataActions"]
        and (
            assigned is None
            or allowed_by_azure(
                document("azure", assigned)["properties"]["condition"], f"{BLOBS}/{action}", name, lists=lists
            )
        )
    }


def test_googles_roles_of_machines_allow_what_those_of_s3_do():
    writer = "writer", "machines-writer"
    for right, of_s3 in (("get", "GetObject"), ("create", "PutObject")):
        assert on_google(right, *writer) == on_s3(*writer, of_s3)
    # To replace an object, Google wants this right as well.
    assert on_google("delete", *writer) == {HINT, f"{REQUESTS}a-1", "_groups/g", OF_A_LOG[4]}
    assert on_google("create", "writer") == on_s3(*writer, "PutObject") - {HINT, f"{REQUESTS}a-1"}
    # In place of the reader's document: Google's conditions deny nothing.
    assert on_google("get", "machines-reader") == on_s3("reader", "machines-reader", "GetObject")
    assert on_google("get", "machines-reader") == {*OF_A_LOG} - {HINT}
    listing = [document("gcs", role)["bindings"][1] for role in ("reader", "machines-reader")]
    assert listing[0] == listing[1]


def test_azures_roles_of_machines_allow_what_those_of_s3_do():
    writer = ("writer", None), ("machines-writer", "machines-writer-assignment")
    assert (
        on_azure("delete", *writer)
        == {f"{REQUESTS}a-1"}
        == on_s3("writer", "machines-writer", "DeleteObject") - {"_groups/g"}
    )
    for action in ("read", "write", "add/action"):
        assert on_azure(action, *writer) == {*OF_A_LOG}
    reader = "reader", "machines-reader-assignment"
    assert on_azure("read", reader) == on_s3("reader", "machines-reader", "GetObject") == {*OF_A_LOG} - {HINT}
    assert on_azure("read", reader, lists=True) == {*OF_A_LOG}


@pytest.mark.deep
def test_machines_share_entries_in_azure_with_the_rights_of_writers(azurite_server, tmp_path):
    """They lead without a role more. It lets them delete the objects that they have handed over."""
    given = {name: value for name, value in azurite_server.settings.items() if name != "adls.account-key"}
    settings = Settings({**given, "adls.sas-token": shared_access("container", "rcwl")})
    url = f"{azurite_server.url}/{uuid.uuid4().hex[:8]}"
    place = SimpleNamespace(url=url, settings=settings, server=azurite_server, stop=tmp_path / "stop")
    Admin(url, settings).create_topic("t")
    _, seen = share_entries(place, settings, tmp_path)
    assert seen <= request_objects(place)
    reader = Settings({**given, "adls.sas-token": shared_access("container", "rl")})
    with pytest.raises(StorePermissionError):
        open_store(url, reader).overwrite(f"{REQUESTS}a-1", b"")
