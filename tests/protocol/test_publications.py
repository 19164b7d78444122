"""Publications: what a version pins, who may write it, and what is refused."""

from __future__ import annotations

import pytest

from spark_eos.errors import (
    InvalidRequestError,
    ProducerFencedError,
    SegmentsReplacedError,
    UnknownTopicOrPartitionError,
)
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.publishing.versions import pages_of
from spark_eos.protocol.encoding.index_pages import checksum
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.invariants import InvariantError, check_later, check_state
from spark_eos.protocol.publication import Pin
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.fate import Fate, fate_of, is_repeatable
from spark_eos.protocol.rules.sealing import sealed_to
from spark_eos.protocol.types import NO_PRODUCER, BatchRef, FileRef

CREATED = a.CreatePublication("p", "delta", (), (("t", "t-id"),))


@pytest.fixture
def published(log):
    """A log with a publication of ``t``, which has ten records in partition 0."""
    log.append(NO_PRODUCER, (0, 10))
    log.do(CREATED)
    log.do(a.FencePublisher("p"))
    return log


def ranged(log, partition=0, end=None, start=None, topic="t"):
    """The range of a partition as a publisher sees it."""
    topic_id = log.state.topics[topic].topic_id
    key = (topic_id, partition)
    known = log.state.partitions[key]
    start = known.start if start is None else start
    end = known.last_stable_offset if end is None else end
    return a.PinnedRange(topic_id, partition, start, end, checksum(pages_of(key, known, start, end)[1]))


def begun(log, *ranges, **fields):
    """The next intent of the newest publisher; of all partitions, if none are given."""
    known = log.state.publications["p"]
    if not ranges:
        ranges = [
            ranged(log, n, topic=t) for t, _ in known.topics for n in range(log.state.topics[t].partitions)
        ]
    first = a.BeginPublish("p", known.epoch, known.sequence + 1, log.state.seq, tuple(ranges))
    return first._replace(**fields)


def ended(log, native=7, **fields):
    known = log.state.publications["p"]
    natives = tuple((name, native) for name, _ in known.topics)
    return a.EndPublish("p", known.epoch, known.sequence, natives)._replace(**fields)


def publish(log, *ranges, **fields):
    log.do(begun(log, *ranges, **fields))
    log.do(ended(log))


def rewritten(log, base, end, partition=0, topic="t", name="data/0-r.arrow"):
    """A request that makes one row of all rows from ``base`` to ``end``."""
    key = (log.state.topics[topic].topic_id, partition)
    pages = sealed_to(key, log.state.partitions[key], end).index.pages
    pages = [page for page in pages if base <= page.base_offset and page.next_offset <= end]
    batch = BatchRef(partition, end - base, 0, 100, 7, 1, 2)
    row = IndexRow(base, end - base, Kind.DATA, NO_PRODUCER, 2, FileRef(name, 1000, 0), batch)
    return a.ReplaceSegments(topic, *key, base, end, checksum(pages), (row,), (name,))


def files(pin):
    return [row.file.name for row in pin.rows() if row.file is not None]


# -- Create, fence, drop -----------------------------------------------------------------------------------


def test_a_publication_is_created_once(log):
    log.do(CREATED._replace(config=(("retention.ms", "5"),)))
    known = log.state.publications["p"]
    assert (known.format, dict(known.config), known.topics) == (
        "delta",
        {"retention.ms": "5"},
        (("t", "t-id"),),
    )
    assert (known.epoch, known.sequence, known.published, known.begun) == (0, 0, None, None)
    with pytest.raises(InvalidRequestError, match="publication 'p' is there already"):
        log.do(CREATED)


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"name": "a/b"}, InvalidRequestError, "illegal name of a publication 'a/b'"),
        ({"name": ".."}, InvalidRequestError, "illegal name"),
        ({"format": "Delta"}, InvalidRequestError, "'Delta' is no name of a format"),
        ({"topics": ()}, InvalidRequestError, "needs one topic or more"),
        ({"topics": (("t", "t-id"), ("t", "t-id"))}, InvalidRequestError, "each of them once"),
        ({"topics": (("u", "u-id"),)}, UnknownTopicOrPartitionError, "no topic 'u'"),
        ({"topics": (("t", "old"),)}, UnknownTopicOrPartitionError, "was deleted and created again"),
        ({"config": (("a", "1"), ("a", "2"))}, InvalidRequestError, "a setting is given twice"),
        ({"config": (("retention.ms", "-1"),)}, InvalidRequestError, "'retention.ms' must be a whole number"),
    ],
)
def test_what_cannot_be_published(log, fields, error, text):
    with pytest.raises(error, match=text):
        log.do(CREATED._replace(**fields))


def test_two_publications_do_not_write_to_one_table(log):
    log.topic("u", 1)
    log.do(CREATED)
    both = (("u", "u-id"), ("t", "t-id"))
    with pytest.raises(
        InvalidRequestError, match="publication 'p' has a delta table of topic 't' at the same place"
    ):
        log.do(a.CreatePublication("q", "delta", (), both))
    log.do(a.CreatePublication("q", "iceberg", (), both))
    log.do(a.CreatePublication("r", "delta", (("location", "s3://b/r"),), both))
    for name in ("x", "y"):
        config = (("catalog", "c"), ("namespace", name))
        log.do(a.CreatePublication(name, "iceberg", config, both[1:]))
    assert [one.name for one in log.state.publications_of("t-id")] == ["p", "q", "r", "x", "y"]
    assert [one.name for one in log.state.publications_of("u-id")] == ["q", "r"]


def test_a_topic_with_a_publication_is_not_deleted(log):
    log.do(CREATED)
    with pytest.raises(InvalidRequestError, match="'t' cannot be deleted: publication 'p' has a table of it"):
        log.do(a.DeleteTopic("t", "t-id"))
    log.do(a.DropPublication("p"))
    log.do(a.DeleteTopic("t", "t-id"))
    with pytest.raises(InvalidRequestError, match="no publication 'p'; its publications are: none"):
        log.do(a.FencePublisher("p"))


def test_a_fence_gives_the_next_epoch(published):
    assert published.state.publications["p"].epoch == 1
    assert published.do(a.FencePublisher("p")) == (2,)


def test_an_earlier_publisher_is_refused(published):
    """Whatever it still sends: its intent is for another to finish."""
    intent = begun(published)
    published.do(a.FencePublisher("p"))
    with pytest.raises(ProducerFencedError, match="epoch 1, and the newest one has 2: another publisher"):
        published.do(intent)
    published.do(begun(published))
    zombie = ended(published)
    published.do(a.FencePublisher("p"))
    with pytest.raises(ProducerFencedError):
        published.do(zombie)
    with pytest.raises(ProducerFencedError):
        published.do(a.DropPublication("p", 2))
    published.do(ended(published))
    known = published.state.publications["p"].published
    assert (known.sequence, known.epoch) == (1, 2)


def test_epochs_and_sequences_of_a_dropped_publication_do_not_come_again(published):
    intent = begun(published)
    publish(published)
    publish(published)
    published.do(a.FencePublisher("p"), a.DropPublication("p", 2))
    published.do(CREATED)
    known = published.state.publications["p"]
    assert (known.epoch, known.sequence) == (3, 3)
    (epoch,) = published.do(a.FencePublisher("p"))
    assert epoch == 4
    for epoch in range(5):
        with pytest.raises((ProducerFencedError, InvalidRequestError)):
            published.do(intent._replace(epoch=epoch))
    publish(published)
    assert published.state.publications["p"].sequence == 4, "a table with version 2 would pass for it"


# -- A version ---------------------------------------------------------------------------------------------


def test_a_version_pins_its_records_until_the_next_one_is_published(published):
    first = published.state.seq
    publish(published)
    published.append(NO_PRODUCER, (0, 5), base=1)
    published.do(begun(published))
    known = published.state.publications["p"]
    assert (known.published.entry, known.begun.entry) == (first, published.state.seq - 1)
    assert [pin[:2] for _, pin in sorted(known.published.pins.items())] == [(0, 10), (0, 0)]
    assert [pin[:2] for _, pin in sorted(known.begun.pins.items())] == [(0, 15), (0, 0)]
    published.do(rewritten(published, 0, 15))
    published.do(a.AdvanceLogStart((published.at(15),)))
    known = published.state.publications["p"]
    assert files(known.published.pins["t-id", 0]) == ["data/t/0-x.arrow"]
    assert files(known.begun.pins["t-id", 0]) == ["data/t/0-x.arrow", "data/t/1-x.arrow"]
    assert not published.partition().index.pages
    published.do(ended(published, native=2**63 - 1))
    known = published.state.publications["p"]
    assert (known.published.sequence, known.begun, dict(known.published.natives)) == (
        2,
        None,
        {"t": 2**63 - 1},
    )
    assert [page.next_offset for page in published.state.sealed_pages()] == [10, 15]


def test_a_range_may_end_inside_of_a_page(published):
    published.append(NO_PRODUCER, (0, 5), base=1)
    log = published
    log.do(begun(log, ranged(log, 0, end=15), ranged(log, 1)))  # One page of both rows.
    log.do(ended(log))
    log.do(a.DropPublication("p"))
    log.do(CREATED)
    log.do(begun(log, ranged(log, 0, end=10), ranged(log, 1)))
    pin = log.state.publications["p"].begun.pins["t-id", 0]
    assert (pin[:2], [page.next_offset for page in pin.pages]) == ((0, 10), [15])
    assert files(pin) == ["data/t/0-x.arrow"], "the version does not need what lies behind its end"


def test_a_range_begins_at_the_start_of_the_partition(published):
    log = published
    log.append(NO_PRODUCER, (0, 5), base=1)
    log.do(a.AdvanceLogStart((log.at(12),)))
    log.do(begun(log))
    pin = log.state.publications["p"].begun.pins["t-id", 0]
    assert (pin[:2], pin.pages[0].base_offset, files(pin)) == ((12, 15), 10, ["data/t/1-x.arrow"])


def test_an_open_transaction_is_not_published(published):
    stamp = published.next(published.init())
    published.append(stamp, (0, 5), base=1)
    with pytest.raises(InvalidRequestError, match="no range up to the last stable offset 10"):
        published.do(begun(published, ranged(published, 0, end=15), ranged(published, 1)))
    published.do(begun(published))
    assert published.state.publications["p"].begun.pins["t-id", 0].end == 10


def test_an_aborted_transaction_is_pinned_as_aborted(published):
    stamp = published.next(published.init())
    published.append(stamp, (0, 5), base=1)
    published.end(stamp, commit=False)
    publish(published)
    pin = published.state.publications["p"].published.pins["t-id", 0]
    assert [row.kind for row in pin.rows()] == [Kind.DATA, Kind.ABORTED, Kind.ABORT]
    assert not published.partition().aborted


def test_versions_follow_one_another(published):
    with pytest.raises(InvalidRequestError, match="version 2 of publication 'p': the next one is 1"):
        published.do(begun(published, sequence=2))
    published.do(begun(published))
    with pytest.raises(InvalidRequestError, match="version 1 has to be finished before"):
        published.do(begun(published))
    with pytest.raises(
        InvalidRequestError, match="version 2 of publication 'p' cannot end: it was not begun"
    ):
        published.do(ended(published, sequence=2))
    published.do(ended(published))
    published.do(ended(published))  # Repeated: nothing changes.
    with pytest.raises(InvalidRequestError, match="cannot end: it was not begun"):
        published.do(ended(published, native=8))
    with pytest.raises(InvalidRequestError, match="the next one is 2"):
        published.do(begun(published, sequence=1))


def test_entries_of_versions_rise(published):
    for entry in (-1, published.state.seq + 1):
        with pytest.raises(
            InvalidRequestError, match=rf"is for entry {entry}: it must be from 0,.* to 4, the newest"
        ):
            published.do(begun(published, entry=entry))
    publish(published)
    with pytest.raises(
        InvalidRequestError, match="is for entry 3: it must be from 4, that of the version before"
    ):
        published.do(begun(published, entry=3))
    publish(published, entry=4)


def test_what_was_replaced_meanwhile_is_not_pinned(published):
    """Its files may be vacuumed already."""
    intent = begun(published)
    published.do(rewritten(published, 0, 10))
    with pytest.raises(SegmentsReplacedError, match="other segments are there by now"):
        published.do(intent)
    published.do(begun(published))


def test_records_that_were_deleted_meanwhile_are_not_pinned(published):
    intent = begun(published)
    published.do(a.AdvanceLogStart((published.at(5),)))
    with pytest.raises(SegmentsReplacedError, match="records before 5 were deleted meanwhile"):
        published.do(intent)


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"start": 1}, InvalidRequestError, "lack records: the partition starts at 0"),
        ({"start": 6, "end": 5}, InvalidRequestError, "no range up to the last stable offset 10"),
        ({"start": -1}, InvalidRequestError, "no range"),
        ({"end": 11}, InvalidRequestError, "no range"),
        ({"pages": 0}, SegmentsReplacedError, "other segments"),
        ({"end": 0}, SegmentsReplacedError, "other segments"),
        ({"topic_id": "u-id"}, InvalidRequestError, "named twice, or not there, or not published"),
        ({"partition": 2}, InvalidRequestError, "not there"),
        ({"partition": 1}, InvalidRequestError, "no range|named twice"),
    ],
)
def test_ranges_that_are_refused(published, fields, error, text):
    published.topic("u", 1)
    with pytest.raises(error, match=text):
        published.do(begun(published, ranged(published)._replace(**fields), ranged(published, 1)))


def test_a_version_has_all_partitions(published):
    with pytest.raises(
        SegmentsReplacedError, match="partition t-1 is not named, and is not as in the version before"
    ):
        published.do(begun(published, ranged(published)))
    publish(published)
    published.do(a.AlterTopic("t", "t-id", 3))
    with pytest.raises(SegmentsReplacedError, match="partition t-2 is not named"):
        published.do(begun(published, ranged(published)))
    publish(published, ranged(published, 2))
    assert [pin.end for _, pin in sorted(published.state.publications["p"].published.pins.items())] == [
        10,
        0,
        0,
    ]


def test_a_partition_that_is_not_named_stays_as_it_was(published):
    publish(published)
    before = published.state.publications["p"].published.pins["t-id", 0]
    published.append(NO_PRODUCER, (0, 5), base=1)
    published.append(NO_PRODUCER, (1, 3), base=1)
    published.do(rewritten(published, 0, 15))
    publish(published, ranged(published, 1))
    pins = published.state.publications["p"].published.pins
    assert pins["t-id", 0] is before or pins["t-id", 0] == before
    assert pins["t-id", 1].end == 3
    published.do(a.AdvanceLogStart((published.at(2),)))
    with pytest.raises(SegmentsReplacedError, match="partition t-0 is not named"):
        published.do(begun(published, ranged(published, 1)))


def test_ranges_do_not_go_back(published):
    publish(published)
    published.append(NO_PRODUCER, (0, 5), base=1)
    publish(published)
    with pytest.raises(InvalidRequestError, match="lie before those of the last version, 0 to 15"):
        published.do(begun(published, ranged(published, 0, end=10), ranged(published, 1)))


def test_a_table_with_copies_needs_no_files(published):
    published.do(begun(published))
    published.do(ended(published, released=("t",)))
    pin = published.state.publications["p"].published.pins["t-id", 0]
    assert (pin, pin.is_whole) == (Pin(0, 10), False)
    with pytest.raises(SegmentsReplacedError, match="partition t-0 is not named"):
        published.do(begun(published, ranged(published, 1)))
    published.do(begun(published, ranged(published)))
    assert published.state.publications["p"].begun.pins["t-id", 0].is_whole


def test_an_end_names_the_topics(published):
    published.topic("u", 1)
    published.do(begun(published))
    for versions in ((), (("u", 1),), (("t", 1), ("u", 1)), (("t", 1), ("t", 1))):
        with pytest.raises(InvalidRequestError, match="each of them once"):
            published.do(ended(published, versions=versions))
    with pytest.raises(InvalidRequestError, match="each of them once"):
        published.do(ended(published, released=("u",)))


def test_a_version_knows_the_schema_of_its_entry(published):
    publish(published)
    assert dict(published.state.publications["p"].published.schemas) == {"t": 0}
    for schemas in ((("t", 1),), (("u", 0),), (("t", 0), ("t", 0))):
        with pytest.raises(InvalidRequestError, match="schema"):
            published.do(begun(published, schemas=schemas))


# -- Lost replies ------------------------------------------------------------------------------------------


def test_what_a_state_says_of_a_lost_intent(published):
    intent = begun(published)
    assert fate_of(published.state, (intent,)) is Fate.NOT_APPLIED
    published.do(intent)
    assert fate_of(published.state, (intent,)) is Fate.APPLIED
    assert fate_of(published.state, (intent._replace(epoch=0),)) is Fate.NOT_APPLIED
    published.do(a.FencePublisher("p"))
    published.do(ended(published))
    assert fate_of(published.state, (intent,)) is Fate.APPLIED, "another publisher has finished it"
    publish(published)
    assert fate_of(published.state, (intent,)) is Fate.UNKNOWN
    published.do(a.DropPublication("p"))
    assert fate_of(published.state, (intent,)) is Fate.UNKNOWN


def test_what_a_state_says_of_a_lost_end(published):
    published.do(begun(published))
    end = ended(published)
    assert fate_of(published.state, (end,)) is Fate.NOT_APPLIED
    published.do(end)
    assert fate_of(published.state, (end,)) is Fate.APPLIED
    published.do(a.FencePublisher("p"))
    assert fate_of(published.state, (end,)) is Fate.UNKNOWN, "the next publisher may have ended it"
    published.do(a.DropPublication("p"))
    assert fate_of(published.state, (end,)) is Fate.UNKNOWN


def test_what_a_state_says_of_a_lost_drop(published):
    drop = a.DropPublication("p", 1)
    assert fate_of(published.state, (drop,)) is Fate.NOT_APPLIED
    assert is_repeatable((drop, a.FencePublisher("p"), CREATED))
    assert not is_repeatable((a.DropPublication("p"),)), "it would drop the next one of the name"
    published.do(drop)
    assert fate_of(published.state, (drop,)) is Fate.UNKNOWN
    published.do(CREATED)
    with pytest.raises(ProducerFencedError):
        published.do(drop)


# -- Snapshots and invariants ------------------------------------------------------------------------------


def snapshot(state):
    data = encode_snapshot(state)
    read = decode_snapshot(data, state.seq, "snapshot")
    assert read == state
    assert encode_snapshot(read) == data
    return read


def test_a_snapshot_keeps_publications(published):
    snapshot(published.state)
    published.append(NO_PRODUCER, (1, 4), base=1)
    publish(published, timestamp_ms=1000)
    published.append(NO_PRODUCER, (0, 5), base=2)
    published.do(begun(published, ranged(published)))
    published.do(a.CreatePublication("é".encode().hex(), "iceberg", (("retention.ms", "1"),), CREATED.topics))
    read = snapshot(published.state)
    pins = read.publications["p"].begun.pins["t-id", 0]
    assert all(any(page is own for own in read.partitions["t-id", 0].index.pages) for page in pins.pages)
    published.do(rewritten(published, 0, 15))
    published.do(rewritten(published, 0, 4, partition=1, name="data/0-q.arrow"))
    read = snapshot(published.state)
    assert (
        read.publications["p"].begun.pins["t-id", 1].pages[0]
        is read.publications["p"].published.pins["t-id", 1].pages[0]
    )
    published.do(ended(published, released=("t",)))
    snapshot(published.state)
    published.do(a.DropPublication("p"))
    assert snapshot(published.state).publication_floor == 2


def test_impossible_publications_are_found(published):
    publish(published)
    publish(published)
    state, known = published.state, published.state.publications["p"]
    check_later(state, state)

    def changed(**fields):
        return replace(state, publications=state.publications.set("p", replace(known, **fields)))

    version = known.published
    pin = version.pins["t-id", 0]
    for text, new in (
        (
            "is gone, and its epochs may come again",
            replace(state, publications=state.publications.delete("p")),
        ),
        ("the epoch of publication 'p' went back|later epoch", changed(epoch=0)),
        ("the versions of publication 'p' went back", changed(published=replace(version, sequence=1))),
        ("version 2 of publication 'p' changed", changed(published=replace(version, entry=0))),
        ("of a later entry", changed(published=replace(version, entry=99))),
        ("has a topic that is gone", changed(topics=(("u", "u-id"),))),
        (
            "offset 10 is not pinned",
            changed(
                published=replace(
                    version, pins=version.pins.set(("t-id", 0), replace(pin, pages=pin.pages * 2))
                )
            ),
        ),
        (
            "no range of stable offsets",
            changed(published=replace(version, pins=version.pins.set(("t-id", 0), replace(pin, end=99)))),
        ),
        ("that is gone", changed(published=replace(version, pins=version.pins.set(("t-id", 9), pin)))),
    ):
        with pytest.raises(InvariantError, match=text):
            check_later(state, new)
    check_state(state)
