"""Decoders fed with anything: clear errors only, in bounded memory, without a crash of the interpreter.

``SPARK_EOS_FUZZ_EXAMPLES`` sets the number of examples of each test (default 150).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest
from google_crc32c import value as crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_eos.errors import CheckpointMismatchError, ConfigError, CorruptRecordError, UnsupportedVersionError
from spark_eos.log.data.layout import deserialise_schema, serialise_schema
from spark_eos.protocol.actions import Entry
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.spark.source.offsets import SourceOffset, parse_offsets_json
from tests.corruption.damage import compressed, golden

EXAMPLES = int(os.environ.get("SPARK_EOS_FUZZ_EXAMPLES", "150"))
FUZZ = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
HEADER = 20

ENTRIES = [
    (int(Path(name).stem), data)
    for files in (golden(), compressed())
    for name, data in files.items()
    if name.startswith("_log/")
]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A few cruel edits: bytes set, cut out, put in, copied, numbers made huge."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(found) + 1)
        edit = chance.randrange(5)
        if edit == 0:
            found[at : at + 1] = bytes([chance.randrange(256)])
        elif edit == 1:
            del found[at : at + chance.randint(1, 8)]
        elif edit == 2:
            found[at:at] = chance.randbytes(chance.randint(1, 8))
        elif edit == 3:
            start = chance.randrange(len(found) + 1)
            found[at:at] = found[start : start + chance.randint(1, 40)]
        else:
            width = chance.choice([1, 2, 4, 8, 9])
            found[at : at + width] = chance.choice([b"\xff", b"\x7f", b"\x80", b"\0"]) * width
    return bytes(found)


def sealed(data: bytes) -> bytes:
    """The entry with the CRC of the body it has now."""
    if len(data) < HEADER:
        return data
    return data[: HEADER - 4] + crc32c(data[HEADER:]).to_bytes(4, "big") + data[HEADER:]


@FUZZ
@given(st.sampled_from(ENTRIES), st.integers(0, 2**32), st.booleans())
def test_entries(entry: tuple[int, bytes], seed: int, seal: bool) -> None:
    seq, data = entry
    damaged = mutated(data, random.Random(seed))
    if damaged == data:
        return
    try:
        found = decode_entry(sealed(damaged) if seal else damaged, seq, "the file")
    except (CorruptRecordError, UnsupportedVersionError) as error:
        assert "the file" in str(error)  # noqa: PT017  (with its own CRC it may be an entry)
    else:
        assert seal
        assert isinstance(found, Entry)


@FUZZ
@given(st.binary(max_size=200))
def test_any_bytes_are_no_entry(data: bytes) -> None:
    for body in (data, b"EOSLOG" + data, ENTRIES[0][1][: HEADER - 4] + data):
        with pytest.raises((CorruptRecordError, UnsupportedVersionError), match="the file"):
            decode_entry(body, 0, "the file")


@FUZZ
@given(st.integers(0, 2**32), st.binary(max_size=60))
def test_schemas(seed: int, data: bytes) -> None:
    good = serialise_schema(pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))]))
    for body in (data, mutated(good, random.Random(seed))):
        try:
            found = deserialise_schema(body)
        except CorruptRecordError as error:
            assert "Arrow schema" in str(error)  # noqa: PT017  (it may be a schema)
        else:
            assert isinstance(found, pa.Schema)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["@eoslog", "log", "topics", "initial", "version", "group", "t", "0", "1", "é"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@FUZZ
@given(VALUES)
def test_offsets_of_the_source(value: object) -> None:
    for whole in (
        value,
        {"@eoslog": value},
        {"@eoslog": {"version": 1, "log": "l", "topics": {"t": "i"}, "initial": {}}, "t": value},
    ):
        try:
            found = SourceOffset.from_json_dict(whole)
        except (CheckpointMismatchError, UnsupportedVersionError):
            continue
        assert SourceOffset.from_json_dict(found.to_json_dict()) == found


@FUZZ
@given(st.text(max_size=60))
def test_offsets_of_a_user(text: str) -> None:
    for whole in (text, f'{{"t": {{"0": {text}}}}}', f'{{"t": {{"{text}": 1}}}}'):
        try:
            found = parse_offsets_json("startingOffsets", whole)
        except (ConfigError, UnsupportedVersionError) as error:
            assert "startingOffsets" in str(error)  # noqa: PT017  (it may be right)
        else:
            assert found


def run_in_little_memory(program: str, seed: int) -> None:
    """Run ``program`` in a process of its own, which may map little more than it has mapped at its start."""
    prologue = """
        import random, resource, sys
        import pyarrow as pa
        from tests.corruption.test_decoders import *
        chance = random.Random(int(sys.argv[1]))
        def little(extra):
            mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (mapped + extra, mapped + extra))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(prologue) + textwrap.dedent(program), str(seed)],
        cwd=Path(__file__).parent.parent.parent,
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-3000:]}"


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and RLIMIT_AS")


@linux
def test_lengths_in_entries_do_not_take_memory() -> None:
    """An entry's counts and lengths, made huge under a good CRC, are not believed."""
    run_in_little_memory(
        """
        decode_entry(ENTRIES[0][1], 0, "x")
        little(150 << 20)
        huge = [b"\\xfe" * 4 + b"\\x0f", b"\\xfe" * 9 + b"\\x01", b"\\x80" * 5 + b"\\x01", b"\\xff" * 9 + b"\\x01"]
        for seq, data in ENTRIES[:: max(1, len(ENTRIES) * 8 // EXAMPLES)]:
            for at in range(HEADER, len(data)):
                try:
                    decode_entry(sealed(data[:at] + chance.choice(huge) + data[at + 1 :]), seq, "x")
                except (CorruptRecordError, UnsupportedVersionError) as error:
                    assert "MemoryError" not in str(error), error
        """,
        0,
    )


@linux
def test_lengths_in_files_do_not_take_memory() -> None:
    """The length of a batch that its file does not have is not allocated: what is there decides."""
    run_in_little_memory(
        """
        import tempfile
        from spark_eos.log.data.layout import Layout
        from spark_eos.log.data.reader import read_batch
        from spark_eos.protocol.types import BatchRef, FileRef
        from spark_eos.storage import PosixStore
        store = PosixStore(tempfile.mkdtemp())
        store.create("f", b"x" * 1000)
        little(150 << 20)
        for length in (1 << 20, 1 << 31, 1 << 40, (1 << 62)):
            try:
                read_batch(store, FileRef("f", 1000, 0), BatchRef(0, 1, 10, length, 0, 0, 0), Layout.kafka())
            except CorruptRecordError as error:
                assert "only 990" in str(error)
            else:
                raise AssertionError
        """,
        0,
    )


@linux
def test_record_batches_under_a_good_crc() -> None:
    """Beyond what a damage can do, as the CRC is made to fit: Arrow itself must not take the process down."""
    run_in_little_memory(
        """
        from spark_eos.log.log import Log
        from tests.corruption.damage import FilesStore
        from spark_eos.log.data.reader import decode_batch
        from spark_eos.log.topics import layout_of
        batches = []
        for files in (golden(), compressed()):
            log = Log.open(FilesStore(files, {}))
            for topic in log.state.topics.values():
                for number in range(topic.partitions):
                    for row in log.state.partitions[topic.topic_id, number].index.tail:
                        if row.file is not None:
                            data = files[row.file.name][row.batch.position : row.batch.position + row.batch.length]
                            layout = layout_of(topic, row.file.schema_version)
                            decode_batch(pa.py_buffer(data), row.file, row.batch, layout)
                            batches.append((data, row.file, row.batch, layout))
        little(300 << 20)
        for _ in range(EXAMPLES * 4):
            data, file, batch, layout = chance.choice(batches)
            bad = mutated(data, chance)
            batch = batch._replace(length=len(bad), crc=crc32c(bad))
            try:
                decode_batch(pa.py_buffer(bad), file, batch, layout)
            except CorruptRecordError as error:
                assert file.name in str(error)
        """,
        1,
    )
