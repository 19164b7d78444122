"""``compression.type=auto``: each file tries its first rows."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from spark_eos.config.compression import Compression
from spark_eos.log.data.arrow_file import compression_of
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore

AUTO = Compression.of("auto")
RANDOM = random.Random(1).randbytes
FITS = 200
"""Rows of 100 bytes, enough to tell."""

BUFFER_BYTES = 30_000
"""Room for one part, and not for two."""


def padded(number):
    return b"%d" % number + b" " * 90


def digits(_):
    return b"%0100d" % int.from_bytes(RANDOM(41), "big")


def flight(_):
    return b"JFK-LAX-UA-N14228" + RANDOM(12)


def plain(_):
    return RANDOM(100)


def codecs(*parts, compression=AUTO):
    """How the batches of one file are compressed, each of a part: values that one flush writes."""
    store = MemoryStore()
    log = Log.create(store)
    topic = log.ensure_topic("t")
    with log.stage(topic, compression=compression, buffer_bytes=BUFFER_BYTES) as writer:
        for values in parts:
            writer.append(pa.table({"value": values}), 0)
        (staged,) = writer.finish()
    data = [store.read(staged.file.name, one.position, one.length) for one in staged.batches]
    return [compression_of(part) for part in data]


@pytest.mark.parametrize(
    ("value", "codec"),
    [(padded, "zstd"), (flight, "zstd"), (plain, None), (digits, None)],
    ids=["padded", "half repeats", "random", "zstd halves it, and nothing repeats"],
)
def test_what_pays_is_compressed(value, codec):
    assert set(codecs([value(number) for number in range(FITS)])) == {codec}


def test_what_is_small_stays_plain():
    assert codecs([padded(number) for number in range(20)]) == [None]


def test_the_first_rows_decide_for_the_file():
    first, other = [[value(number) for number in range(FITS)] for value in (padded, plain)]
    assert set(codecs(first, other)) == {"zstd"}
    assert set(codecs(other, first)) == {None}


def test_a_codec_that_is_named_is_not_tried():
    assert set(codecs([plain(number) for number in range(FITS)], compression=Compression.of("zstd"))) == {
        "zstd"
    }
    assert set(codecs([padded(number) for number in range(FITS)], compression=None)) == {None}
