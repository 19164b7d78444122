"""Entries as bytes: exact round trips, and nothing but our own errors for bytes that are no entry."""

from __future__ import annotations

import google_crc32c
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos.errors import CorruptRecordError, InvalidRequestError, UnsupportedVersionError
from spark_eos.protocol import actions as a
from spark_eos.protocol.encoding.avro import fingerprint
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.encoding.schema import written
from spark_eos.protocol.encoding.snapshots import decode_snapshot
from spark_eos.protocol.encoding.values import BATCH_COLUMNS
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.types import BatchRef, Decider, FileRef, Follower, ProducerStamp, StagedFile

HEADER = 20
STAMP = ProducerStamp(1, 2**62, 3)
OFFSETS = (a.PartitionOffset("t", "i", 0, 5, "m"), a.PartitionOffset("t", "i", 1, 2**63 - 1))
BATCHES = tuple(BatchRef(n, 10 + n, n * 1000, 1000, 2**32 - 1 - n, 17 * 10**11, n, n - 1) for n in range(3))
DECIDER = Decider("l", "s3://é", 1, 2, 3, b"h", 2**62)
ACTIONS = (
    a.CreateLog("x"),
    a.CreateLog("x", 1, 2**63 - 1),
    a.CreateTopic("t", "i", 3),
    a.CreateTopic("t", "i", 3, (("a", "b"), ("c", "")), b"\0"),
    a.CreateTopic("t", "i", 3, (), b""),
    a.AlterTopic("t", "i"),
    a.AlterTopic("t", "i", 0, (), b""),
    a.AlterTopic("t", "i", 3, (("a", "b"),), b"x"),
    a.DeleteTopic("t", "i"),
    a.InitProducer(0, 0, None, 0),
    a.InitProducer(0, 0, "", 0, ""),
    a.InitProducer(0, 0, "", 0, None, True),
    a.AppendBatches(
        STAMP,
        (("t", "i"), ("u", "j")),
        (StagedFile("t", FileRef("n", 1, 0, ("a", "b")), BATCHES), StagedFile("u", FileRef("m", 1, 2), ())),
    ),
    a.AppendBatches(STAMP, (), ()),
    a.CommitOffsets("g", OFFSETS),
    a.CommitOffsets("g", (), STAMP),
    a.CommitMicroBatch(
        "t", "q", "r", 1, (a.SourceProgress(None, None), a.SourceProgress("", "é", "", *[OFFSETS] * 2))
    ),
    a.CommitMicroBatch("t", "q", "r", 1, (a.SourceProgress("0", "1", name="n"),), True, True),
    a.EndTransaction(STAMP, True),
    a.EndTransaction(STAMP, False),
    a.AdvanceLogStart(OFFSETS),
    a.RaiseStagingFloor(-(2**63)),
    a.CommitOffsets("g", OFFSETS, STAMP, a.Membership("m", 2**63 - 1)),
    a.CommitOffsets("g", (), None, a.Membership("", -1, "")),
    a.DeleteOffsets("g"),
    a.DeleteOffsets("g", (("t", 0), ("t", 2**63 - 1))),
    a.JoinGroup("g", "m", ("t", "u"), ("range", "roundrobin"), 45_000),
    a.JoinGroup("g", "m", (), (), 0, "", "é"),
    a.SyncGroup("g", "m", 7),
    a.LeaveGroup("g", ("m", "n")),
    a.LeaveGroup("g", (), 45_000),
    a.ExpireTransaction(STAMP, 60_000),
    a.ExpireProducers((1, 2**63 - 1)),
    a.ExpireTransactionalIds(("tx", "")),
    a.ExpireOffsets("g", (("t", 0),)),
    a.AlterLog((("a", "b"), ("c", ""))),
    a.ReplaceSegments("t", "i", 3, 0, 9, 2**32 - 1, (), ("", "n")),
    a.ReplaceSegments(
        "t",
        "i",
        3,
        0,
        9,
        7,
        (
            IndexRow(
                0, 4, Kind.DATA, STAMP, 5, FileRef("n", 1, 0, ("a",), True), BATCHES[0]._replace(partition=3)
            ),
            IndexRow(4, 1, Kind.HOLE, STAMP, 2**62),
            IndexRow(
                *(5, 2, Kind.DATA, STAMP, 5, FileRef("p", 9, 1, (), False, 4, 2**32 - 1)),
                BATCHES[0]._replace(partition=3),
            ),
        ),
    ),
    a.AlterLog(()),
    a.ResetLogTime(1234),
    a.SetAppVersion("job", 0),
    a.SetAppVersion("é", 2**62, "i"),
    a.CreatePublication("p", "delta", (("retention.ms", "5"),), (("t", "i"), ("u", "j"))),
    a.FencePublisher("é"),
    a.BeginPublish("p", 2, 3, 4, ()),
    a.BeginPublish(
        "p",
        2**62,
        3,
        4,
        (
            a.PinnedRange("i", 0, 0, 2**62, 2**32 - 1),
            a.PinnedRange("i", 1, 5, 5, 0),
            a.PinnedRange("j", 7, 0, 1, 1),
        ),
        1234,
        (("t", 0), ("u", 3)),
    ),
    a.EndPublish("p", 2, 3, (("t", 2**63 - 1), ("u", 0))),
    a.EndPublish("p", 2, 3, (), ("u",)),
    a.DropPublication("p"),
    a.DropPublication("p", 0),
    a.MarkEncrypted("é"),
    a.PrepareTransaction(STAMP),
    a.PrepareTransaction(STAMP, DECIDER),
    a.AddFollowers(STAMP, (Follower("l", "file:///é", "tx"), Follower("m", "", ""))),
    a.FollowDecision(STAMP, DECIDER, True),
    a.NoteFollowers(STAMP, b"", ("l", "m")),
    a.PlaceData(""),
    a.PlaceData("s3://bücket/log"),
    a.MoveData("s3://bücket/log", -1),
    a.MoveData("./_data/8", 7),
    a.DataCopied(7),
    a.DataMoved(2**62),
)
ENTRY = a.Entry(7, (a.Request(b"0123456789abcdef", 5, ACTIONS, "é"), a.Request(bytes(16), 0, ())))


def entry_of(*actions):
    return a.Entry(0, (a.Request(bytes(16), 0, actions),))


def sealed(data):
    """The entry with a CRC that fits its body: what is wrong is up to Avro."""
    return data[: HEADER - 4] + google_crc32c.value(bytes(data[HEADER:])).to_bytes(4, "big") + data[HEADER:]


def test_round_trip():
    data = encode_entry(ENTRY)
    decoded = decode_entry(data, 7, "entry 7")
    # The text tells True from 1 and a named tuple from a plain one.
    assert repr(decoded) == repr(ENTRY)
    assert decoded == ENTRY
    assert encode_entry(decoded) == data


def test_whether_a_clock_was_checked_makes_the_round_trip():
    entry = a.Entry(0, (a.Request(bytes(16), 7, (), "w", clock_checked=True), a.Request(bytes(16), 7, ())))
    assert decode_entry(encode_entry(entry), 0, "x") == entry


def test_anything_with_a_buffer_is_read():
    data = encode_entry(ENTRY)
    for buffer in (bytearray(data), memoryview(data), pa.py_buffer(data)):
        assert decode_entry(buffer, 7, "x") == ENTRY


def test_an_entry_says_its_schema():
    assert encode_entry(ENTRY)[:16] == b"EOSLOG\0\1" + fingerprint([*written().values()][-1])
    assert BatchRef._fields == BATCH_COLUMNS


@given(
    st.lists(
        st.lists(st.builds(BatchRef, *[st.integers(-(2**63), 2**63 - 1)] * 8), max_size=4).map(tuple),
        max_size=3,
    ),
    st.text(st.characters(exclude_categories=["Cs"])),
)
def test_any_batches_make_the_round_trip(files, text):
    staged = tuple(StagedFile(text, FileRef(text, 1, 0, (text,)), batches) for batches in files)
    entry = entry_of(a.AppendBatches(STAMP, ((text, text),), staged))
    assert decode_entry(encode_entry(entry), 0, "x") == entry


@pytest.mark.parametrize(
    "entry",
    [
        a.Entry(2**63, ()),
        entry_of(a.RaiseStagingFloor(-(2**63) - 1)),
        entry_of(a.RaiseStagingFloor("1")),
        entry_of(a.DeleteTopic("t", None)),
        entry_of(a.DeleteTopic("\ud800", "i")),
        entry_of("nothing"),
        a.Entry(0, (a.Request(b"short", 0, ()),)),
    ],
)
def test_what_cannot_be_written(entry):
    with pytest.raises(InvalidRequestError, match=rf"entry {entry.seq} cannot be written"):
        encode_entry(entry)


@pytest.mark.conformance("state/checked")
def test_a_flipped_byte_is_found_wherever_it_is():
    data = encode_entry(ENTRY)
    for at in range(len(data)):
        for mask in (1, 0x80, 0xFF):
            flipped = bytearray(data)
            flipped[at] ^= mask
            with pytest.raises((CorruptRecordError, UnsupportedVersionError), match=r"^entry 7 "):
                decode_entry(flipped, 7, "entry 7")


@pytest.mark.conformance("state/checked")
def test_a_cut_is_found_wherever_it_is():
    data = encode_entry(ENTRY)
    for length in range(len(data)):
        with pytest.raises(CorruptRecordError, match=r"^entry 7 "):
            decode_entry(data[:length], 7, "entry 7")
        if length >= HEADER:
            with pytest.raises(CorruptRecordError, match=r"^entry 7 is no valid entry"):
                decode_entry(sealed(data[:length]), 7, "entry 7")


@pytest.mark.deep("all masks")
@pytest.mark.parametrize("together", [1, 3], ids=["masks in turn", "all masks"])
def test_malformed_avro_under_a_good_crc(together):
    data = encode_entry(ENTRY)
    masks = (1, 0x80, 0xFF)
    refused = 0
    for at in range(HEADER, len(data)):
        for mask in (masks * 2)[at % 3 :][:together]:
            flipped = bytearray(data)
            flipped[at] ^= mask
            # Nothing but this error; other bytes may be another entry.
            try:
                decode_entry(sealed(flipped), 7, "entry 7")
            except CorruptRecordError:
                refused += 1
    assert refused > len(data) * together / 3


@given(st.binary(max_size=100))
def test_any_bytes_under_a_good_crc(body):
    try:
        entry = decode_entry(sealed(encode_entry(ENTRY)[:HEADER] + body), 0, "x")
    except CorruptRecordError:
        return
    assert entry.seq == 0


@pytest.mark.parametrize("column", range(8))
def test_columns_of_another_length(column):
    data = encode_entry(
        entry_of(a.AppendBatches(STAMP, (), (StagedFile("", FileRef("", 0, 0), BATCHES[:1]),)))
    )
    plain = b"".join(b"\2" + _long(value) + b"\0" for value in BATCHES[0])
    missing = b"".join(b"\0" if n == column else b"\2" + _long(v) + b"\0" for n, v in enumerate(BATCHES[0]))
    assert plain in data
    with pytest.raises(CorruptRecordError, match="zip"):
        decode_entry(sealed(data.replace(plain, missing)), 0, "x")


def _long(value):
    """Avro's long: zigzag, then seven bits at a time."""
    value, out = (value << 1) ^ (value >> 63), bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize(
    ("header", "decode"),
    [
        (b"EOSLOG\0\1" + bytes.fromhex("84fc59c393734c5b"), decode_entry),
        (b"EOSSNP\0\1" + bytes.fromhex("d6e23a1253b677e9"), decode_snapshot),
    ],
    ids=["entry", "snapshot"],
)
def test_a_log_from_before_the_first_release_says_so(header, decode):
    with pytest.raises(UnsupportedVersionError, match=r"before the first release .* to a new log") as found:
        decode(header + bytes(40), 0, "the file")
    assert "upgrade" not in str(found.value)


def test_what_is_wrong_is_named():
    data = encode_entry(ENTRY)
    for bad, error, text in (
        (b"", CorruptRecordError, "begins with"),
        (b"PAR1" + data, CorruptRecordError, "begins with"),
        (data[:19], CorruptRecordError, "19 bytes are less than"),
        (data[:6] + b"\0\0" + data[8:], CorruptRecordError, "format version 0"),
        (data[:6] + b"\1\0" + data[8:], UnsupportedVersionError, "version 256; .* up to 1"),
        (
            data[:8] + bytes(8) + data[16:],
            UnsupportedVersionError,
            "schema 0{16} .* knows [0-9a-f]{16}: upgrade it",
        ),
        (data[:-1] + b"\7", CorruptRecordError, "CRC32C"),
        (data + b"\0", CorruptRecordError, "CRC32C"),
        (sealed(data + b"\0"), CorruptRecordError, "1 bytes are left over"),
    ):
        with pytest.raises(error, match=rf"^the file .*{text}"):
            decode_entry(bad, 7, "the file")
    with pytest.raises(CorruptRecordError, match="holds entry 7, not entry 8"):
        decode_entry(data, 8, "the file")
