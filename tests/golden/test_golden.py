"""The golden logs of every format that a release has written are read by this version, and can be written on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos.extensions.encryption.store import EncryptedStore
from spark_eos.log.log import Log
from spark_eos.maintenance.verify.verify import Finding, Verdict, verify
from spark_eos.protocol.actions import DECLARED, AppendBatches, Entry
from spark_eos.protocol.encoding import schema
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.encoding.snapshots import decode_snapshot
from spark_eos.protocol.state import EMPTY, State
from spark_eos.protocol.types import NO_PRODUCER, RULES
from spark_eos.storage import open_store
from tests.golden.logs import LOGS
from tests.golden.make import GOLDEN, PAGE, differing, format_number, main
from tests.golden.seen import seen

EVERY = sorted(path.with_suffix("") for path in GOLDEN.glob("v*/*.json"))
TODAY = GOLDEN / f"v{format_number()}"


def expected(log: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(log.with_suffix(".json").read_text("utf-8"))
    return found


def entries(log: Path) -> Iterator[tuple[bytes, Entry]]:
    for path in sorted((log / "_log").rglob("*.avro")):
        if (data := path.read_bytes())[:6] == b"EOSLOG":
            yield data, decode_entry(data, int(path.stem), str(path))


def test_there_is_one_of_each_group_for_todays_format() -> None:
    assert {log.name for log in EVERY if log.parent == TODAY} == {*LOGS}


def test_each_action_is_in_one_of_them() -> None:
    found = {
        type(action)
        for log in EVERY
        for _, entry in entries(log)
        for request in entry.requests
        for action in request.actions
    }
    assert {kind.__name__ for kind in DECLARED.keys() - found} == set()


def test_each_part_of_the_state_is_in_one_of_their_snapshots() -> None:
    states = [
        decode_snapshot(path.read_bytes(), int(path.stem), str(path))
        for log in EVERY
        for path in log.glob("_log/snapshots/*.avro")
    ]
    always = {"rules", "entries_per_folder", "open_transactions", "transactional_ids"}
    unused = {
        name
        for name in State._fields
        if all(getattr(state, name) == getattr(EMPTY, name) for state in states)
    }
    assert unused - always == set()


@pytest.mark.parametrize("log", EVERY, ids=lambda log: f"{log.parent.name}-{log.name}")
def test_a_log_of_an_earlier_format_is_read(log: Path) -> None:
    assert seen(Log.open(log)) == expected(log)


@pytest.mark.parametrize("log", EVERY, ids=lambda log: f"{log.parent.name}-{log.name}")
def test_a_log_of_an_earlier_format_is_written_on(log: Path, tmp_path: Path) -> None:
    shutil.copytree(log, tmp_path / "log")
    store = open_store(tmp_path / "log")
    if Log.open(store).state.encrypted_at >= 0:
        store = EncryptedStore(store, Keys(), "golden")
    opened = Log.open(store)
    topic = opened.topic("events")
    with opened.stage(topic) as writer:
        writer.append(pa.table({"value": [b"new"]}), 2)
        files = writer.finish()
    action = AppendBatches(NO_PRODUCER, ((topic.name, topic.topic_id),), files)
    assert opened.commit(lambda _: (action,)).seq == expected(log)["seq"] + 1  # type: ignore[operator]
    *_, last = seen(Log.open(store))["topics"]["events"]["partitions"][2]["rows"]["read_committed"]  # type: ignore[index]
    assert last[1]["value"] == "new"


class Keys:
    """The key with which the test writes on."""

    def key(self, key_id: str) -> bytes | None:
        return b"g" * 32 if key_id == "golden" else None


@pytest.mark.parametrize("log", EVERY, ids=lambda log: f"{log.parent.name}-{log.name}")
def test_a_log_of_an_earlier_format_is_sound(log: Path) -> None:
    """Its snapshots are the states that its entries lead to, as far as these are there."""
    found: list[Finding] = []
    verify(open_store(log), found.append)
    assert [one for one in found if one.verdict is Verdict.WRONG] == []


@pytest.mark.parametrize("name", LOGS)
def test_todays_entries_are_those_of_the_golden_logs(tmp_path: Path, name: str) -> None:
    """A change of the bytes of entries, snapshots or index pages is a change of the format."""
    LOGS[name](tmp_path)
    assert differing(tmp_path, TODAY / name) == []


def test_what_is_missing_or_changed_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*LOGS][2:]:
        monkeypatch.delitem(LOGS, name)
    page = tmp_path / "docs/format.md"
    page.parent.mkdir()
    rows = "\n".join(f"| [{name}](avro/{name}.avsc) | `0` | what |" for name in ("entry-1", "snapshot-1"))
    page.write_text(f"{rows}\n", "utf-8")
    assert main(tmp_path, page) == ["entry-1", "snapshot-1", "index-page-1", "records", "growth"]
    for name in ("entry-1", "index-page-1"):
        row = next(line for line in PAGE.read_text("utf-8").splitlines() if f"[{name}]" in line)
        assert row.rpartition(" | ")[0] in page.read_text("utf-8")
        assert (page.parent / f"avro/{name}.avsc").read_bytes() == (
            PAGE.parent / f"avro/{name}.avsc"
        ).read_bytes()
    (changed,) = tmp_path.glob("v*/records/_log/0*02.avro")
    changed.write_bytes(b"changed")
    assert main(tmp_path, page) == ["records"]
    assert differing(changed.parents[1], TODAY / "records") == []


def test_what_a_release_has_written_is_never_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.golden.make.RELEASED", format_number())
    assert main(tmp_path, tmp_path / "format.md") == []
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("log", EVERY, ids=lambda log: f"{log.parent.name}-{log.name}")
def test_entries_keep_their_values_and_bytes(log: Path) -> None:
    """An entry that is read and written again has the same values, and the same bytes if its schema is the newest."""
    newest, _ = schema.newest()
    count = 0
    for data, entry in entries(log):
        count += 1
        again = encode_entry(entry)
        assert decode_entry(again, entry.seq, "again") == entry._replace(rules=RULES)
        if data[8:16] == newest:
            assert again == data, entry.seq
    assert count
