"""Maps in parts: what is stored is read when it is asked for, and only what has changed is packed again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import NamedTuple

import pytest
from fastavro import schemaless_reader, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol.encoding import packed_parts
from spark_eos.protocol.encoding.avro import LONG, STRING, keyed_by, parsed, record_of, since, versions
from spark_eos.protocol.encoding.packed_parts import in_parts
from spark_eos.protocol.encoding.snapshots import check_parts, decode_snapshot, encode_snapshot
from spark_eos.protocol.packed_map import Layout, PackedMap, part_of_name, part_of_number
from spark_eos.protocol.replace import replace

MANY = 300


class One(NamedTuple):
    """``late`` came with version 2."""

    number: int
    late: str = "none"


SHAPE = in_parts(
    "Ones", part_of_number, keyed_by("number", record_of(One, number=LONG, late=since(2, STRING)))
)


def stored(values, version=2):
    """The map as a snapshot of that version of the format would give it back."""
    schema = [*parsed(versions(SHAPE).values()).values()][version - 1]
    write = SHAPE.write(values)
    if version == 1:  # What that version wrote: its own column, and no late field.
        (column,) = [field["name"] for field in schema["fields"]][1:]
        inner = next(iter(parsed([schema["fields"][1]["type"]["items"]["packed"]]).values()))
        bodies = []
        for _, part in sorted(values.parts.items()):
            stream = BytesIO()
            schemaless_writer(stream, inner, [one._asdict() for _, one in sorted(part.values.items())])
            bodies.append(stream.getvalue())
        write = {"parts": write["parts"], column: bodies}
    stream = BytesIO()
    schemaless_writer(stream, schema, write)
    stream.seek(0)
    return SHAPE.read(schemaless_reader(stream, schema, None))


def ones(count):
    """So many, whose numbers follow one another."""
    values = PackedMap(Layout(part_of_number))
    for number in range(count):
        values = values.set(number, One(number, "x"))
    return values


def unpacked(values):
    """How many parts someone has asked for, or changed."""
    return sum(part.values is not None for part in values.parts.values())


@given(st.lists(st.tuples(st.booleans(), st.integers(-100, 100))), st.integers(0, 5))
def test_it_is_a_map(steps, reading):
    values, expected = PackedMap(Layout(part_of_number)), {}
    for at, (is_set, number) in enumerate(steps):
        if is_set:
            values, expected[number] = values.set(number, One(number, str(at))), One(number, str(at))
        elif number in expected:
            values = values.delete(number)
            del expected[number]
        else:
            with pytest.raises(KeyError):
                values.delete(number)
        if at == reading:
            values = stored(values)
    assert (dict(values), len(values), bool(values)) == (expected, len(expected), bool(expected))
    assert all(values[key] == values.get(key) == value and key in values for key, value in expected.items())
    assert 101 not in values
    assert values.get(101) is None
    again = stored(values)
    assert again == values
    assert SHAPE.write(again) == SHAPE.write(values)
    assert (values == values.set(5, One(5, "other"))) is False
    assert (values == values.set(101, One(101))) is False


def test_only_the_part_that_is_asked_for_is_read():
    values = stored(ones(MANY))
    assert unpacked(values) == 0
    assert values[MANY // 2] == One(MANY // 2, "x")
    assert values.get(MANY // 2 + 10**6) is None
    assert unpacked(values) == 1


def test_two_threads_that_unpack_a_part_at_once_have_the_same():
    """Neither waits for the other one, and what each makes of the map has all that the part had."""
    values = stored(ones(2))
    unpack, in_other = values.layout.unpack, []

    def while_another_does_so(*part):
        mine = unpack(*part)
        if not in_other:
            in_other.append(None)
            with ThreadPoolExecutor(1) as pool:
                in_other[0] = pool.submit(lambda: (values.get(0), values.set(2, One(2)))).result()
        return mine

    values = PackedMap(values.layout._replace(unpack=while_another_does_so), values.parts)
    changed = values.set(3, One(3))
    ((seen, other_changed),) = in_other
    assert seen == values[0] == One(0, "x")
    assert dict(values) == dict(ones(2))
    assert dict(changed) == {**ones(2), 3: One(3)}
    assert dict(other_changed) == {**ones(2), 2: One(2)}
    assert dict(stored(changed)) == dict(changed)


def test_only_what_has_changed_is_packed_again(monkeypatch):
    values = stored(ones(MANY))
    before = SHAPE.write(values)
    changed = values.set(5, One(5, "other"))
    packed = []
    monkeypatch.setattr(packed_parts, "BytesIO", lambda *data: packed.append(data) or BytesIO(*data))
    after = SHAPE.write(changed)
    assert len(packed) == 1
    (column,) = set(before) - {"parts"}
    assert [one for one in range(len(before[column])) if before[column][one] != after[column][one]] == [0]
    SHAPE.write(changed)
    assert len(packed) == 1, "what was packed once is kept"


def test_a_part_of_an_older_version_is_read_by_its_schema_and_packed_by_the_newest():
    values = stored(ones(40), version=1)
    assert values[3] == One(3, "none")
    assert SHAPE.write(stored(ones(40), version=1)) == SHAPE.write(stored(values))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda parts, bodies: (parts, [bodies[0][:-2], bodies[1]]), "part 0 of Ones"),
        (lambda parts, bodies: (parts, [bodies[0] + b"x", bodies[1]]), "part 0 of Ones .* other keys"),
        (lambda parts, bodies: (parts, [b"\0", bodies[1]]), "part 0 of Ones .* other keys"),
        (lambda parts, bodies: (parts, bodies[::-1]), "part [01] of Ones .* other keys"),
        (lambda _, bodies: ([0, 0], bodies), "twice"),
    ],
    ids=["cut", "longer", "empty", "another's", "twice"],
)
def test_parts_that_do_not_fit_are_damage(broken, message):
    column, good = [*SHAPE.write(ones(40)).items()][1]
    parts, bodies = broken([0, 1], good)
    with pytest.raises(CorruptRecordError, match=message):
        dict(SHAPE.read({"parts": parts, column: bodies}))


def many(log):
    """The state of a log with ``MANY`` transactional ids."""
    for number in range(MANY):
        log.init(f"tx-{number}")
    return log.state


def test_opening_a_log_reads_no_producer_and_a_look_at_one_reads_its_neighbours_alone(log):
    state = many(log)
    opened = decode_snapshot(encode_snapshot(state), state.seq, "snapshot")
    assert unpacked(opened.producers) == unpacked(opened.transactional_ids) == 0
    assert opened.producer_of("tx-77") == state.producer_of("tx-77")
    assert (unpacked(opened.producers), unpacked(opened.transactional_ids)) == (1, 1)
    assert opened == state
    assert encode_snapshot(opened) == encode_snapshot(state)


def test_what_follows_from_producers_is_checked_when_all_is_read(log):
    state = many(log)
    check_parts(state)
    for broken in (
        replace(state, transactional_ids=state.transactional_ids.delete("tx-9")),
        replace(state, open_transactions=state.open_transactions.set(9, True)),
    ):
        with pytest.raises(CorruptRecordError, match="other transactional ids or open transactions"):
            check_parts(decode_snapshot(encode_snapshot(broken), broken.seq, "snapshot"))


def test_names_are_in_the_same_parts_in_all_processes():
    assert [part_of_name(name) for name in ("", "tx-000001", "é", "\ud800")] == [0, 221, 318, 296]
