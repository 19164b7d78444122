"""Decoders fed with anything: clear errors only, in bounded memory, without a crash of the interpreter.

``SPARK_EOS_FUZZ_EXAMPLES`` sets the number of examples of each test (default 150).
"""

from __future__ import annotations

import random
import sys

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_eos.errors import CheckpointMismatchError, ConfigError, CorruptRecordError, UnsupportedVersionError
from spark_eos.log.data.layout import deserialise_schema, serialise_schema
from spark_eos.protocol.actions import Entry
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.spark.source.offsets import SourceOffset, parse_offsets_json
from tests.corruption.hostile import EXAMPLES, HEADER, entries, mutated, sealed
from tests.starting import run

FUZZ = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ENTRIES = entries()


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
            st.sampled_from(
                [
                    "@eoslog",
                    "log",
                    "topics",
                    "initial",
                    "version",
                    "begins",
                    "group",
                    "read",
                    "t",
                    "0",
                    "1",
                    "é",
                ]
            ),
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
        {
            "@eoslog": {"version": 1, "log": "l", "topics": {"t": "i"}, "initial": {}, "begins": "latest"},
            "t": value,
        },
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


def run_in_little_memory(name: str) -> None:
    """Run a program in a process of its own, which may map little more than it has mapped at its start."""
    # Other pools map a gigabyte before they need it.
    run(name, timeout=3600, ARROW_DEFAULT_MEMORY_POOL="system")


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and RLIMIT_AS")


@linux
def test_lengths_in_entries_do_not_take_memory() -> None:
    """An entry's counts and lengths, made huge under a good CRC, are not believed."""
    run_in_little_memory("corruption/entries_with_huge_numbers")


@linux
def test_lengths_in_files_do_not_take_memory() -> None:
    """The length of a batch that its file does not have is not allocated: what is there decides."""
    run_in_little_memory("corruption/batches_longer_than_their_file")


@linux
def test_record_batches_under_a_good_crc() -> None:
    """Beyond what a damage can do, as the CRC is made to fit: Arrow itself must not take the process down."""
    run_in_little_memory("corruption/arrow_batches")
