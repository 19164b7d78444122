"""The source's offsets and the files of a checkpoint, damaged: refused by name, or what they were."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_eos.errors import CheckpointMismatchError, ConfigError, UnsupportedVersionError
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.sink.checkpoint import Checkpoint, sources_of_batch
from spark_eos.spark.source.offsets import SourceOffset, loads, parse_offsets_json, parse_timestamps_json
from tests.corruption.damage import FULL, Damage

OFFSET = SourceOffset(
    log_id="7f1e7d0c-0000-4000-8000-000000000001",
    topic_ids={"flights": "id-1", "é": "id-2"},
    positions={
        TopicPartition("flights", 0): 23,
        TopicPartition("flights", 10): 2**40,
        TopicPartition("é", 0): 0,
    },
    initial={TopicPartition("flights", 0): 0},
    begins="earliest",
    group="readers",
)
TEXT = json.dumps(OFFSET.to_json_dict())
META = '{"batchWatermarkMs":0,"batchTimestampMs":1795237047920,"conf":{"spark.sql.shuffle.partitions":"2"}}'
FILES = {
    "metadata": '{"id":"2ce2e13a-876c-43ce-a96d-c4129a0abcd1"}',
    "offsets/0": f"v1\n{META}\n-\n{TEXT}",
    "offsets/1": f'v1\n{META}\n{{"logOffset":0}}\n{TEXT}',
}


def damages(name: str, data: bytes) -> Iterator[Damage]:
    chance = random.Random(name)
    for kind in ("flipped", "removed", "doubled", "cut"):
        positions = range(len(data))
        for position in positions if FULL else sorted(chance.sample(positions, min(150, len(data)))):
            yield Damage(kind, name, position, chance.randrange(8))


def hadoop_crc(data: bytes, size: int = 512) -> bytes:
    """The file beside ``data`` in a Hadoop folder: magic, bytes per sum, and a CRC32 of each chunk."""
    sums = (zlib.crc32(data[at : at + size]) for at in range(0, len(data), size))
    return b"crc\0" + struct.pack(">i", size) + b"".join(struct.pack(">I", it) for it in sums)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    for name, text in FILES.items():
        put(tmp_path, name, text.encode())
    return tmp_path


def put(root: Path, name: str, data: bytes) -> None:
    path = root / name
    path.write_bytes(data)
    path.with_name(f".{path.name}.crc").write_bytes(hadoop_crc(data))


def read(root: Path) -> object:
    checkpoint = Checkpoint(str(root))
    return checkpoint.query_id(), sources_of_batch(checkpoint, 1), sources_of_batch(checkpoint, 0)


@pytest.mark.parametrize("name", FILES)
def test_every_damaged_byte_of_a_checkpoint_is_noticed(root: Path, name: str) -> None:
    data = FILES[name].encode()
    assert read(root) is not None
    for damage in damages(name, data):
        damaged = damage.of(data)
        assert damaged is not None
        if damaged == data:
            continue
        (root / name).write_bytes(damaged)
        with pytest.raises((CheckpointMismatchError, UnsupportedVersionError), match=name):
            read(root)


@pytest.mark.parametrize("name", FILES)
def test_without_its_sums_a_checkpoint_is_still_refused_or_read(root: Path, name: str) -> None:
    (root / name).with_name(f".{Path(name).name}.crc").unlink()
    data = FILES[name].encode()
    for damage in damages(name, data):
        (root / name).write_bytes(damage.of(data) or b"")
        try:
            read(root)
        except (CheckpointMismatchError, UnsupportedVersionError) as error:
            assert str(root) in str(error)  # noqa: PT017  (it may also be read)


@pytest.mark.parametrize("name", FILES)
def test_lines_that_are_there_twice(root: Path, name: str) -> None:
    lines = FILES[name].split("\n")
    for at in range(len(lines)):
        (root / name).write_text("\n".join([*lines[: at + 1], *lines[at:]]))
        with pytest.raises((CheckpointMismatchError, UnsupportedVersionError), match=name):
            read(root)


@pytest.mark.parametrize("length", [0, 1, 511, 512, 513, 1024, 3000])
def test_sums_of_files_of_every_length(root: Path, length: int) -> None:
    data = FILES["offsets/1"].replace('"logOffset":0', f'"x":"{"y" * length}"').encode()
    put(root, "offsets/1", data)
    assert sources_of_batch(Checkpoint(str(root)), 1)[0].end is not None
    damaged = data[:-30] + bytes([data[-30] ^ 1]) + data[-29:]
    (root / "offsets/1").write_bytes(damaged)
    with pytest.raises(CheckpointMismatchError, match=r"offsets/1 .*checksum.*damaged"):
        read(root)


@pytest.mark.parametrize(
    "sums", [b"", b"crc", b"crc\0", b"crc\0\0\0\2", b"CRC\0" + bytes(40), b"crc\0" + bytes(40)]
)
def test_sums_that_are_none_do_not_matter(root: Path, sums: bytes) -> None:
    """As in Hadoop, which goes by the sums only if their header can be read."""
    (root / "offsets/.1.crc").write_bytes(sums)
    assert read(root) is not None


def test_sums_that_end_too_early(root: Path) -> None:
    path = root / "offsets/.1.crc"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointMismatchError, match="offsets/1 "):
        read(root)


def decoded(text: str) -> SourceOffset | None:
    """The offset of a text; None if it is no JSON, which Spark itself would refuse."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return SourceOffset.from_json_dict(value)


def test_damaged_offsets_are_refused_or_offsets() -> None:
    """JSON has no sums: what is left is an offset that is well-formed, or an error."""
    data = TEXT.encode()
    refused = 0
    for damage in damages("offset", data):
        text = (damage.of(data) or b"").decode(errors="surrogateescape")
        try:
            found = decoded(text)
        except (CheckpointMismatchError, UnsupportedVersionError):
            refused += 1
            continue
        if found is not None:
            assert SourceOffset.from_json_dict(found.to_json_dict()) == found
    assert refused > 20


def test_damaged_options_are_refused_or_options() -> None:
    good = json.dumps({"flights": {"0": 23, "1": -2}, "b": {"10": 2**62}})
    for option, parse in (
        ("startingOffsets", parse_offsets_json),
        ("startingOffsetsByTimestamp", parse_timestamps_json),
    ):
        text = good.replace("-2", "2") if parse is parse_timestamps_json else good
        for damage in damages(option, text.encode()):
            damaged = (damage.of(text.encode()) or b"").decode(errors="surrogateescape")
            try:
                found = parse(option, damaged)
            except (ConfigError, UnsupportedVersionError) as error:
                assert option in str(error)  # noqa: PT017  (it may also be accepted)
            else:
                assert all(type(value) is int and -2 <= value < 2**63 for value in found.values())


@pytest.mark.parametrize("depth", [100, 100_000])
def test_nesting_without_end(root: Path, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    with pytest.raises(ConfigError):
        parse_offsets_json("startingOffsets", deep)
    with pytest.raises(ConfigError):
        parse_offsets_json("startingOffsets", '{"a": {"0": ' + deep + "}}")
    put(root, "metadata", deep.encode())
    with pytest.raises(CheckpointMismatchError, match="metadata"):
        Checkpoint(str(root)).query_id()
    put(root, "offsets/1", f"v1\n{META}\n{deep}\n{deep}".encode())
    if depth > 1000:
        with pytest.raises(CheckpointMismatchError, match="offsets/1"):
            Checkpoint(str(root)).offsets(1)


@pytest.mark.parametrize("digits", [20, 5000])
def test_numbers_without_end(root: Path, digits: int) -> None:
    number = "9" * digits
    with pytest.raises(ConfigError):
        parse_offsets_json("startingOffsets", '{"a": {"0": ' + number + "}}")
    with pytest.raises(ConfigError):
        parse_offsets_json("startingOffsets", '{"a": {"' + number + '": 1}}')
    put(root, "metadata", ('{"id": ' + number + "}").encode())
    with pytest.raises(CheckpointMismatchError, match="metadata"):
        Checkpoint(str(root)).query_id()


def test_loads_says_what_is_wrong() -> None:
    for text in ("", "{", '{"a": 1, "a": 2}', "NaN", "[" * 100_000):
        with pytest.raises(ValueError, match=r"."):
            loads(text)
