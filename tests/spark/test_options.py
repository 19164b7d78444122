"""Options: Kafka's names and defaults, and nothing that is accepted and then ignored."""

from __future__ import annotations

import re

import pytest

from spark_eos.config.compression import Compression
from spark_eos.config.isolation import Isolation
from spark_eos.errors import ConfigError
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.options import SinkOptions, SourceOptions, parse_any_source, parse_sink, parse_source
from spark_eos.spark.source.offsets import OffsetSpec

BASE = {"path": "/log", "subscribe": "flights"}
AT = TopicPartition("flights", 0)


def stream(**more):
    return parse_source({**BASE, **spelt(more)}, streaming=True)


def batch(**more):
    return parse_source({**BASE, **spelt(more)}, streaming=False)


def sink(*, streaming=True, **more):
    return parse_sink({"path": "/log", **spelt(more)}, streaming=streaming)


def spelt(options):
    return {name.replace("_", "."): value for name, value in options.items()}


def test_defaults_of_a_stream():
    assert stream() == SourceOptions(path="/log", subscribe=("flights",), starting=OffsetSpec("latest"))
    assert stream().isolation_level is Isolation.READ_COMMITTED
    assert stream().fail_on_data_loss


def test_defaults_of_a_batch():
    assert batch().starting == OffsetSpec("earliest")
    assert batch().ending == OffsetSpec("latest")


def test_defaults_of_a_sink():
    assert sink() == SinkOptions(path="/log")
    assert sink().processing_guarantee == "exactly_once"


def test_every_source_option_is_read():
    found = stream(
        startingOffsets="committed",
        failOnDataLoss="False",
        maxOffsetsPerTrigger=" 100 ",
        minPartitions="4",
        maxRecordsPerPartition="7",
        includeHeaders="true",
        includeMetadata="true",
        isolation_level="read_uncommitted",
        group_id="g",
    )
    assert found == SourceOptions(
        path="/log",
        subscribe=("flights",),
        starting=OffsetSpec("committed"),
        starting_option="startingOffsets",
        fail_on_data_loss=False,
        max_offsets_per_trigger=100,
        min_partitions=4,
        max_records_per_partition=7,
        include_headers=True,
        include_metadata=True,
        isolation_level=Isolation.READ_UNCOMMITTED,
        group_id="g",
    )


def test_every_sink_option_is_read():
    options = {
        "path": "/log",
        "topic": "out",
        "kafka.transactional.id": "t",
        "KAFKA.GROUP.ID": "g",
        "processing.guarantee": "at_least_once",
        "num.partitions": "3",
        "auto.create.topics.enable": "false",
        "row.format": "typed",
        "checkpointlocation": "/ck ",
        "queryname": "q",
        "allowstateloss": "true",
        "compression.type": "zstd",
        "partitioner.class": "a:b",
        "max.request.size": "9",
        "includeheaders": "false",
        "mergeSchema": "true",
        "auto.maintenance.enable": "false",
        "errors.deadletterqueue.topic.name": "dead",
    }
    assert parse_sink(options, streaming=True) == SinkOptions(
        "/log",
        "out",
        "t",
        "g",
        "at_least_once",
        3,
        False,
        "typed",
        "/ck ",
        True,
        Compression("zstd", 1),
        "a:b",
        9,
        include_headers=False,
        merge_schema=True,
        auto_maintenance_enable=False,
        errors_deadletterqueue_topic_name="dead",
    )
    assert sink(compression_type="none").compression is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("zstd", 1, True)),
        ({"compression.zstd.level": "9"}, ("zstd", 9, True)),
        ({"compression.type": "zstd", "kafka.compression.zstd.level": "-5"}, ("zstd", -5, False)),
        ({"compression.type": "LZ4", "compression.lz4.level": "17"}, ("lz4", 17, False)),
    ],
)
def test_the_level_of_the_codec(given, expected):
    assert parse_sink({"path": "/log", **given}, streaming=False).compression == expected


@pytest.mark.parametrize(
    "given",
    [
        {"compression.type": "none", "compression.zstd.level": "3"},
        {"compression.type": "lz4", "compression.zstd.level": "3"},
    ],
)
def test_the_level_of_a_codec_that_is_not_chosen(given):
    with pytest.raises(ConfigError, match=r"no effect without compression.type=zstd"):
        parse_sink({"path": "/log", **given}, streaming=False)


def test_a_group_that_a_batch_read_does_not_look_at():
    with pytest.raises(ConfigError, match=r"group.id='g' has no effect: a batch read commits no offsets"):
        batch(group_id="g")
    assert batch(group_id="g", startingOffsets="committed").group_id == "g"


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("compression.lz4.level", "0", "a whole number from 1 to 17"),
        ("compression.lz4.level", "18", "a whole number from 1 to 17"),
        ("compression.zstd.level", "23", "a whole number from -131072 to 22"),
        ("compression.zstd.level", "-131073", "a whole number from -131072 to 22"),
        ("compression.zstd.level", "--1", "a whole number from -131072 to 22"),
        ("compression.gzip.level", "6", "no gzip"),
    ],
)
def test_levels_that_are_not_there_are_named(name, value, wanted):
    with pytest.raises(ConfigError, match=wanted):
        parse_sink({"path": "/log", name: value}, streaming=False)


@pytest.mark.parametrize("given", [{"endingOffsets": "latest"}, {"maxOffsetsPerTrigger": "1"}, {}])
def test_columns_do_not_depend_on_stream_or_batch(given):
    found = parse_any_source({**BASE, **given, "includeHeaders": "true"})
    assert (found.path, found.subscribe, found.include_headers) == ("/log", ("flights",), True)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger='many': expected a whole number"),
        ({"endingOffsets": "soon"}, "endingOffsets='soon': expected latest or"),
        ({"startingOffsets": "soon"}, "startingOffsets='soon': expected earliest, latest, committed or"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss='maybe': expected true or false"),
        ({"endingOffsets": "latest", "maxOffsetsPerTrigger": "1"}, "belongs to spark.readStream, not"),
        ({"topic": "out"}, "topic belongs to df.writeStream and df.write, not to a source"),
        ({"group.ids": "g"}, "did you mean group.id"),
    ],
)
def test_what_neither_a_stream_nor_a_batch_can_take_is_refused_with_the_columns(given, told):
    with pytest.raises(ConfigError, match=re.escape(told)):
        parse_any_source({**BASE, **given})


def test_options_of_a_table_are_found_among_its_properties():
    properties = {"owner": "me", "provider": "eoslog", "comment": "c", "location": "file:/log"}
    own = {"subscribe": "flights", "option.subscribe": "flights", "path": "file:/log"}
    assert parse_any_source({**properties, **own}) == parse_any_source(
        {"path": "file:/log", "subscribe": "flights"}
    )
    with pytest.raises(ConfigError, match=r"WITH \(path = '...', subscribe = '...'\)"):
        parse_any_source({"owner": "me", "provider": "eoslog"})


@pytest.mark.parametrize("key", ["subscribe", "SUBSCRIBE", "Subscribe"])
def test_case_of_keys_does_not_matter(key):
    assert parse_source({"path": "/log", key: " a, b,a ,"}, streaming=True).subscribe == ("a", "b")


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("startingoffset", "startingOffsets"),
        ("subscribePatern", "subscribePattern"),
        ("kafka.isolation.levl", "isolation.level"),
        ("kafka.startingOffsets", "startingOffsets"),
        ("maxoffsetspertriger", "maxOffsetsPerTrigger"),
    ],
)
def test_unknown_option_offers_the_nearest(key, near):
    with pytest.raises(ConfigError, match=rf"unknown option '{key}'; did you mean {near}\?"):
        parse_source({**BASE, key: "1"}, streaming=True)


def test_unknown_option_like_no_other_lists_all():
    with pytest.raises(ConfigError, match=r"'zzz'; spark\.readStream knows .*subscribePattern.*group\.id"):
        stream(zzz="1")


@pytest.mark.parametrize(
    ("key", "why"),
    [("kafka.bootstrap.servers", "no broker"), ("groupIdPrefix", "group.id"), ("paths", "one path")],
)
def test_what_kafka_has_and_we_have_not_is_explained(key, why):
    with pytest.raises(ConfigError, match=rf"{key}.*{why}"):
        parse_source({**BASE, key: "host:9092"}, streaming=True)


def test_both_spellings_must_agree():
    both = {**BASE, "group.id": "a", "kafka.group.id": "a"}
    assert parse_source(both, streaming=True).group_id == "a"
    with pytest.raises(ConfigError, match=r"group\.id and kafka\.group\.id .* 'a' and 'b'"):
        parse_source({**both, "kafka.group.id": "b"}, streaming=True)


@pytest.mark.parametrize(
    ("use", "name", "home"),
    [
        (stream, "endingOffsets", r"spark\.read, not to spark\.readStream"),
        (stream, "endingTimestamp", r"spark\.read,"),
        (stream, "topic", "names its topics with subscribe"),
        (stream, "checkpointLocation", r"df\.writeStream,"),
        (batch, "maxOffsetsPerTrigger", r"spark\.readStream, not to spark\.read:"),
        (batch, "num_partitions", r"df\.writeStream and df\.write,"),
        (sink, "subscribe", r"spark\.readStream and spark\.read, not to df\.writeStream"),
        (sink, "isolation_level", r"spark\.readStream and spark\.read,"),
        (lambda **more: sink(streaming=False, **more), "group_id", r"not to df\.write:"),
        (lambda **more: sink(streaming=False, **more), "checkpointLocation", r"not to df\.write:"),
    ],
)
def test_option_of_another_use_is_refused(use, name, home):
    with pytest.raises(ConfigError, match=f"option {name.replace('_', '.')} belongs to .*{home}"):
        use(**{name: "1"})


@pytest.mark.parametrize(
    "options",
    [{}, {"subscribe": "a", "assign": '{"a": [0]}'}, {"subscribe": "a", "subscribePattern": "a"}],
)
@pytest.mark.parametrize("streaming", [True, False, None])
def test_exactly_one_way_to_choose_topics(options, streaming):
    with pytest.raises(ConfigError, match="exactly one of subscribe, subscribePattern and assign"):
        parse_source({"path": "/log", **options}, streaming=streaming)


def test_assign_and_pattern():
    found = parse_source({"path": "/l", "assign": '{"b": [2, 0, 2], "a": [1]}'}, streaming=True)
    assert list(found.assign.items()) == [("a", (1,)), ("b", (0, 2))]
    assert parse_source({"path": "/l", "subscribePattern": "a.*"}, streaming=True).subscribe_pattern == "a.*"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("subscribe", " , "),
        ("subscribePattern", "("),
        ("assign", "[]"),
        ("assign", "{}"),
        ("assign", "a"),
        ("assign", '{"a": []}'),
        ("assign", '{"a": [-1]}'),
        ("assign", '{"a": [true]}'),
        ("assign", '{"a": ["0"]}'),
        ("assign", '{"a": [0], "a": [1]}'),
        ("assign", "[" * 100_000),
    ],
)
def test_malformed_choice_of_topics(name, value):
    with pytest.raises(ConfigError, match=f"option {name}=.*expected"):
        parse_source({"path": "/log", name: value}, streaming=True)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("failOnDataLoss", "yes", "true or false"),
        ("includeHeaders", "1", "true or false"),
        ("maxOffsetsPerTrigger", "0", "a whole number from 1"),
        ("maxOffsetsPerTrigger", "-5", "a whole number from 1"),
        ("maxOffsetsPerTrigger", "1e6", "a whole number"),
        ("maxOffsetsPerTrigger", "9223372036854775808", "a whole number"),
        ("maxOffsetsPerTrigger", "١", "a whole number"),  # int() takes it  # noqa: RUF001
        ("minPartitions", "2147483648", "to 2147483647"),
        ("isolation.level", "serializable", "read_committed or read_uncommitted"),
        ("startingOffsets", "soon", "earliest, latest, committed or offsets as JSON"),
        ("startingTimestamp", "-1", "a whole number from 0"),
    ],
)
def test_malformed_value_is_named(name, value, wanted):
    with pytest.raises(ConfigError) as caught:
        parse_source({**BASE, name: value}, streaming=True)
    assert f"option {name}={value!r}" in str(caught.value)
    assert wanted in str(caught.value)


@pytest.mark.parametrize(
    "name", ["path", "group.id", "startingOffsets", "failOnDataLoss", "startingTimestamp"]
)
def test_empty_value(name):
    with pytest.raises(ConfigError, match=f"option {name} is empty"):
        parse_source({**BASE, name: " "}, streaming=True)


def test_path_is_required():
    with pytest.raises(ConfigError, match="no path is given"):
        parse_sink({}, streaming=True)


def test_starts_and_ends():
    assert stream(startingOffsets=" Earliest").starting == OffsetSpec("earliest")
    assert stream(startingOffsets='{"flights": {"0": -1}}').starting == OffsetSpec("specific", {AT: -1})
    assert batch(endingOffsets='{"flights": {"0": -1}}').ending == OffsetSpec("specific", {AT: -1})
    assert batch(startingTimestamp="5").starting == OffsetSpec("timestamp", timestamp_ms=5)
    by_time = stream(
        startingOffsetsByTimestamp='{"flights": {"0": 5}}', startingOffsetsByTimestampStrategy="latest"
    )
    assert by_time.starting == OffsetSpec("timestamp", timestamps_ms={AT: 5}, strategy="latest")
    assert batch(endingTimestamp="0").ending == OffsetSpec("timestamp", timestamp_ms=0, strategy="latest")


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"flights": {"0": -1}}'},
        {"endingOffsets": "earliest"},
        {"endingOffsets": "committed"},
        {"endingOffsets": '{"flights": {"0": -2}}'},
    ],
)
def test_bounds_that_make_no_sense_in_a_batch(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        batch(**options)


@pytest.mark.parametrize("use", [stream, batch])
def test_committed_needs_a_group(use):
    with pytest.raises(ConfigError, match=r"needs option group\.id.*transactional\.id"):
        use(startingOffsets="committed")
    assert use(startingOffsets="committed", group_id="g").starting.kind == "committed"


@pytest.mark.parametrize("bound", ["starting", "ending"])
def test_bounds_are_ranked_as_spark_ranks_them(bound):
    offsets = {f"{bound}Offsets": '{"flights": {"0": 7}}'}
    by_partition = {f"{bound}OffsetsByTimestamp": '{"flights": {"0": 5}}'}
    at = {f"{bound}Timestamp": "9"}

    def found(given):
        return getattr(batch(**given), bound)

    assert found({**offsets, **by_partition, **at}).timestamp_ms == 9
    assert found({**offsets, **at}).timestamp_ms == 9
    assert found({**by_partition, **at}) == found(at)
    assert found({**offsets, **by_partition}).timestamps_ms == {AT: 5}
    assert found(offsets).offsets == {AT: 7}


def test_what_ranks_lower_is_not_looked_at():
    other = '{"other": {"0": 1}}'  # It is not read.
    assert stream(startingTimestamp="9", startingOffsets=other).starting.timestamp_ms == 9
    assert batch(startingTimestamp="9", startingOffsets="latest").starting_option == "startingTimestamp"


def test_a_strategy_without_a_time():
    with pytest.raises(ConfigError, match="Strategy needs"):
        stream(startingOffsetsByTimestampStrategy="latest")


@pytest.mark.parametrize(
    "chosen", [{"subscribe": "other"}, {"assign": '{"flights": [1]}'}, {"subscribePattern": "flight"}]
)
@pytest.mark.parametrize("bound", ["starting", "ending"])
def test_bounds_of_what_is_not_read_are_refused(chosen, bound):
    options = {"path": "/log", f"{bound}Offsets": '{"flights": {"0": 3}}', **chosen}
    with pytest.raises(ConfigError, match=f"option {bound}Offsets names partition 0 of topic 'flights'"):
        parse_source(options, streaming=False)


def test_a_strategy_for_times_needs_a_time():
    for given in ({}, {"startingTable": "/table"}):
        with pytest.raises(ConfigError, match="startingOffsetsByTimestampStrategy needs startingTimestamp"):
            batch(startingOffsetsByTimestampStrategy="latest", **given)


def test_ranges_of_offsets():
    text = '{"flights": {"10": [[0, 1]], "2": [[5, 5], [7, 9]]}}'
    two, ten = TopicPartition("flights", 2), TopicPartition("flights", 10)
    assert batch(offsetRanges=text).offset_ranges == {two: ((5, 5), (7, 9)), ten: ((0, 1),)}
    assert list(batch(offsetRanges=text).offset_ranges) == [two, ten]
    with_id = batch(offsetRanges='{"flights": {"id": "x", "2": [[5, 5]]}}')
    assert (with_id.offset_ranges, with_id.ranged_ids) == ({two: ((5, 5),)}, {"flights": "x"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("7", "expected ranges by partition as JSON"),
        ('{"flights": {"id": 1}}', "'id' of topic 'flights' is not a partition"),
        ('{"flights": {"x": [[0, 1]]}}', "'x' of topic 'flights' is not a partition"),
        ('{"flights": {"0": [[3, 1]]}}', r"has \[3, 1\]; expected ranges \[first, end\] that rise"),
        ('{"flights": {"0": [[0, 4], [3, 5]]}}', r"has \[3, 5\]; expected ranges"),
        ('{"flights": {"0": [[0]]}}', "expected ranges"),
        ('{"flights": {"0": [[true, 4]]}}', "expected ranges"),
        ('{"flights": {"0": 3}}', "expected ranges"),
        ('{"others": {"0": [[0, 1]]}}', "partition 0 of topic 'others'"),
    ],
)
def test_no_ranges_of_offsets(text, says):
    with pytest.raises(ConfigError, match=says):
        batch(offsetRanges=text)


def test_ranges_of_offsets_go_with_no_other_bound():
    with pytest.raises(ConfigError, match="offsetRanges and endingTimestamp contradict each other"):
        batch(offsetRanges='{"flights": {"0": [[0, 1]]}}', endingTimestamp="3")
    with pytest.raises(ConfigError, match="offsetRanges and startingTable contradict each other"):
        batch(offsetRanges='{"flights": {"0": [[0, 1]]}}', startingTable="/table")
    with pytest.raises(ConfigError, match=r"offsetRanges belongs to spark\.read"):
        stream(offsetRanges='{"flights": {"0": [[0, 1]]}}')


def test_a_start_from_a_table():
    assert stream(startingTable="/t").starting == OffsetSpec("table", table="/t")
    found = batch(startingTable="/t", startingTableVersion="3")
    assert found.starting == OffsetSpec("table", table="/t", table_version=3)
    assert found.starting_option == "startingTable"
    with pytest.raises(ConfigError, match="startingTable and startingOffsets contradict each other"):
        stream(startingTable="/t", startingOffsets="earliest")
    with pytest.raises(ConfigError, match="startingTableVersion has no effect without startingTable"):
        stream(startingTableVersion="3")
