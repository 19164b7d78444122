"""Sources with names, which come, go and are renamed with the checkpoint kept: every row once, through kills."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException

FORMAT = "spark.sql.streaming.offsetLog.formatVersion"
EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
COMMITTED = {"group_id": "tx", "start": "committed"}


@pytest.fixture
def named(streams, bench):
    """Runs a query of the sources that are named: name -> topic, or topic and options; optionally until a crash."""
    conf = streams.spark.conf
    conf.set(FORMAT, "2")
    conf.set(EVOLUTION, "true")

    def source(name, topic, options):
        reader = streams.spark.readStream.name(name).format("eoslog").option("subscribe", topic)
        reader = reader.option("startingOffsets", options.get("start", "earliest"))
        if "group_id" in options:
            reader = reader.option("group.id", options["group_id"])
        return reader.load(bench.url).select("key", "value")

    def run(*, crash=False, **sources):
        frame = None
        for name, found in sources.items():
            topic, options = (found, {}) if isinstance(found, str) else found
            one = source(name, topic, options)
            frame = one if frame is None else frame.union(one)
        if crash:
            frame = frame.mapInArrow(_fails, frame.schema)
            with pytest.raises(StreamingQueryException, match="crashes"):
                streams.run(frame, transactional_id="tx")
        else:
            streams.run(frame, transactional_id="tx")

    yield run
    conf.unset(FORMAT)
    conf.unset(EVOLUTION)


def _fails(batches):
    yield from batches
    raise RuntimeError("crashes before the sink's commit")


def forget_last(tmp_path):
    """As if the driver had died between the sink's commit and Spark's own note."""
    folder = tmp_path / "cp" / "commits"
    remove(folder, max(map(_number, visible(folder))))


def visible(folder):
    return [path for path in folder.iterdir() if path.name.isdecimal()]


def _number(path):
    return int(path.name)


def remove(folder, number):
    for name in (str(number), f".{number}.crc"):
        (folder / name).unlink()


@pytest.mark.since("4.2")
@pytest.mark.deep
def test_sources_come_go_and_are_renamed_through_kills(named, bench, tmp_path):
    made = []

    def produce(*topics):
        for topic in topics:
            bench.produce(topic, range(len(made), len(made) + 5))
            made.extend(range(len(made), len(made) + 5))

    produce("a", "b")
    named(A="a", B="b")
    forget_last(tmp_path)
    produce("a", "b", "c")
    named(A="a", B="b", C="c")  # C comes, after a kill between the two commits
    produce("a", "c")
    named(crash=True, B="b", C="c", A="a")
    named(C="c", A="a", B="b")  # in another order, after a crash before the sink's commit
    assert bench.values("out") == made
    produce("a")
    named(A="a", C="c")  # B goes
    assert bench.values("out") == made
    forget_last(tmp_path)
    named(A="a", C="c")
    produce("a", "b")
    named(A="a", B="b", C="c")  # B comes back after one batch: Spark still knows where it was
    for _ in range(2):
        produce("a")
        named(A="a", C="c")
    produce("b")
    with pytest.raises(StreamingQueryException, match=r"has read it as source B up to 15.*Remove offsets/"):
        named(A="a", B="b", C="c")  # after two, B would start over
    remove(tmp_path / "cp" / "offsets", max(map(_number, visible(tmp_path / "cp" / "offsets"))))
    named(A="a", B=("b", COMMITTED), C="c")
    produce("a", "b", "c")
    named(A="a", renamed=("b", COMMITTED), C="c")  # B gets another name
    produce("b", "c")
    named(A="a", renamed=("b", COMMITTED), C="c")
    assert bench.values("out") == made


@pytest.mark.since("4.2")
@pytest.mark.deep
def test_a_source_that_leaves_before_its_batch_is_done(named, bench, tmp_path):
    bench.produce("a", range(5))
    bench.produce("b", range(5, 10))
    named(crash=True, A="a", B="b")
    named(A="a")  # Spark repeats the batch without B, though its offsets are in it.
    assert bench.values("out") == [*range(5)]
    assert bench.group("tx") == {("a", 0): 5, ("b", 0): 0}
    bench.produce("a", [10])
    with pytest.raises(StreamingQueryException, match=r'reads source B from .*5.*ended at .*"b": ..0": 0'):
        named(A="a", B="b")  # Spark believes that it was read.
    remove(tmp_path / "cp" / "offsets", 1)
    named(A="a")
    assert bench.values("out") == [*range(5), 10]
    bench.produce("a", [11])
    named(A="a", C=("b", COMMITTED))
    forget_last(tmp_path)
    named(C=("b", COMMITTED))  # The batch is in the log: it is repeated without A, and nothing is written.
    assert bench.values("out") == [*range(12)]
    assert bench.group("tx") == {("a", 0): 7, ("b", 0): 5}


@pytest.mark.deep
def test_version_2_of_the_offset_log_without_names(streams, bench):
    streams.spark.conf.set(FORMAT, "2")
    try:
        for number in range(3):
            for topic in ("a", "b"):
                bench.produce(topic, [10 * number + (topic == "b")])
            streams.run(streams.read("a").union(streams.read("b")).select("key", "value"))
    finally:
        streams.spark.conf.unset(FORMAT)
    assert bench.values("out") == [0, 1, 10, 11, 20, 21]
