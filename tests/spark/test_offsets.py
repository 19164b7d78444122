"""Offsets: stable JSON text for Spark, and what users may write."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos.errors import CheckpointMismatchError, ConfigError, UnsupportedVersionError
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.options import parse_source
from spark_eos.spark.source.offset_resolution import starting_positions
from spark_eos.spark.source.offsets import (
    EARLIEST,
    LATEST,
    HistoryPoint,
    SourceOffset,
    parse_offsets_json,
    parse_timestamps_json,
)
from spark_eos.spark.topics import selected_partitions

A0, A2, A10 = (TopicPartition("a", number) for number in (0, 2, 10))
OFFSET = SourceOffset(
    "L", {"a": "id-a"}, {A10: 5, A2: 7}, {A2: 1}, "earliest", "g", HistoryPoint(3, "0f" * 16)
)
TEXT = (
    '{"@eoslog": {"begins": "earliest", "group": "g", "initial": {"a": {"2": 1}}, "log": "L", '
    '"read": {"entry": 3, "lineage": "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"}, "topics": {"a": "id-a"}, "version": 1}, '
    '"a": {"10": 5, "2": 7}}'
)

names = st.from_regex(r"[a-zA-Z0-9._-]{1,12}", fullmatch=True)
positions = st.dictionaries(
    st.tuples(names, st.integers(0, 2**31 - 1)).map(lambda at: TopicPartition(*at)),
    st.integers(0, 2**63 - 1),
    max_size=12,
)


def changed(**meta):
    found = json.loads(TEXT)
    found["@eoslog"].update(meta)
    return found


def test_text_is_fixed():
    assert json.dumps(OFFSET.to_json_dict()) == TEXT
    assert SourceOffset.from_json_dict(json.loads(TEXT)) == OFFSET
    without = SourceOffset("L", {"a": "id-a"}, {A2: 7}, {}, "latest")
    assert "group" not in without.to_json_dict()["@eoslog"]
    assert SourceOffset.from_json_dict(without.to_json_dict()) == without


@given(positions, positions, st.none() | names, st.randoms())
def test_text_does_not_depend_on_the_order_of_building(now, first, group, random):
    ids = {at.topic: f"id {at.topic}" for at in (*now, *first)}
    shuffled = [random.sample(list(part.items()), len(part)) for part in (ids, now, first)]
    one = SourceOffset("L", ids, now, first, "earliest", group)
    other = SourceOffset("L", *map(dict, shuffled), "earliest", group)
    text = json.dumps(one.to_json_dict())
    assert text == json.dumps(other.to_json_dict()) == json.dumps(json.loads(text), sort_keys=True)
    back = SourceOffset.from_json_dict(json.loads(text))
    assert back == one
    assert list(back.positions) == sorted(now)


def test_partitions_are_in_numeric_order_in_memory():
    assert list(SourceOffset.from_json_dict(json.loads(TEXT)).positions) == [A2, A10]


def test_newer_version_is_refused_by_name():
    with pytest.raises(UnsupportedVersionError, match=r"format version 2, .* up to 1"):
        SourceOffset.from_json_dict(changed(version=2, log=None))


@pytest.mark.parametrize(
    ("offset", "why"),
    [
        ([], "the offset is"),
        ({"a": {"0": 1}}, "'@eoslog' is None"),
        (changed(version="1"), "version is '1'"),
        (changed(version=True), "version is True"),
        (changed(version=0), "version is 0"),
        (changed(log=""), "'log'"),
        (changed(topics={"a": 1}), "id of topic 'a'"),
        (changed(topics={}), r"no id for \['a'\]"),
        (changed(initial=None), "'initial'"),
        (changed(initial={"b": {"0": 1}}), r"no id for \['b'\]"),
        (changed(begins=None), "'begins'"),
        (changed(group=7), "'group'"),
        (changed(read=3), "'read'"),
        (changed(read={"entry": -1, "lineage": "0f" * 16}), "which names no entry"),
        (changed(read={"entry": 3, "lineage": "0f" * 16, "of": 1}), "which names no entry"),
        (changed(read={"entry": 3, "lineage": "0f"}), "has the lineage '0f'"),
        (changed(colour="red"), "unknown keys"),
        ({**changed(), "a": 5}, "topic 'a' is 5"),
        ({**changed(), "a": {"01": 5}}, "'01' of topic 'a'"),
        ({**changed(), "a": {"0": -1}}, "has -1"),
        ({**changed(), "a": {"0": 1.0}}, "has 1.0"),
        ({**changed(), "a": {"0": True}}, "has True"),
    ],
)
def test_malformed_offset_says_what(offset, why):
    with pytest.raises(CheckpointMismatchError, match=why):
        SourceOffset.from_json_dict(offset)


def test_is_ours():
    assert SourceOffset.is_ours(TEXT)
    assert SourceOffset.is_ours(json.dumps(changed(version=99)))
    for text in (
        None,
        "3",
        "-",
        '{"logOffset":0}',
        '{"a": "@eoslog"}',
        '{"@eoslog": 1}',
        '["@eoslog"]',
        "@eoslog{",
    ):
        assert not SourceOffset.is_ours(text)


def test_user_offsets():
    text = '{"a": {"10": 3, "2": -1, "0": -2}}'
    assert list(parse_offsets_json("o", text).items()) == [(A0, -2), (A2, -1), (A10, 3)]
    assert parse_offsets_json("o", TEXT) == {A2: 7, A10: 5}


def test_user_offsets_where_a_bound_makes_no_sense():
    with pytest.raises(ConfigError, match=r"option s: partition 2 .*-1 \(latest\)"):
        parse_offsets_json("s", '{"a": {"0": -2, "2": -1}}', latest_allowed=False)
    with pytest.raises(ConfigError, match=r"option e: partition 0 .*-2 \(earliest\)"):
        parse_offsets_json("e", '{"a": {"0": -2, "2": -1}}', earliest_allowed=False)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "[]",
        "{}",
        "null",
        '{"a": {}}',
        '{"a": 3}',
        '{"a": {"x": 3}}',
        '{"a": {"-1": 3}}',
        '{"a": {"2147483648": 3}}',
        '{"a": {"0": -3}}',
        '{"a": {"0": "3"}}',
        '{"a": {"0": 3.0}}',
        '{"a": {"0": true}}',
        '{"a": {"0": NaN}}',
        '{"a": {"0": 9223372036854775808}}',
        '{"a": {"0": 3, "0": 4}}',
        '{"a": {"0": 3}, "a": {"0": 4}}',
        '{"a":' * 100_000,
    ],
)
def test_malformed_user_offsets_show_a_right_one(text):
    with pytest.raises(ConfigError, match=r"option startingOffsets.*\{\"flights\": \{\"0\": 23"):
        parse_offsets_json("startingOffsets", text)


def test_pasted_offset_of_a_stream_is_checked():
    with pytest.raises(UnsupportedVersionError):
        parse_offsets_json("startingOffsets", json.dumps(changed(version=3)))
    with pytest.raises(ConfigError, match=r"option startingOffsets: .*'log'"):
        parse_offsets_json("startingOffsets", json.dumps(changed(log=1)))


def test_timestamps():
    assert parse_timestamps_json("t", '{"a": {"0": 0}}') == {A0: 0}
    with pytest.raises(ConfigError, match=r"option t: .*from 0"):
        parse_timestamps_json("t", '{"a": {"0": -1}}')


@pytest.mark.parametrize(("default", "begin"), [(LATEST, 2), (EARLIEST, 0)])
def test_partitions_without_a_time_begin_where_those_without_an_offset_do(bench, default, begin):
    bench.topic("src", 2)
    bench.produce("src", range(4))
    times = '{"src": {"0": 0}}'
    options = parse_source(
        {"path": bench.url, "subscribe": "src", "startingOffsetsByTimestamp": times}, streaming=True
    )
    partitions = selected_partitions(options, bench.state)
    starts = starting_positions(options, bench.log, partitions, default=default)
    assert [*starts.values()] == [0, begin]
