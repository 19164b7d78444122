"""docs/guide/coming-from-kafka.md says of each option what comes of giving it."""

from __future__ import annotations

import pytest

from spark_eos.config.kafka.transport import KAFKA_OPTIONS
from spark_eos.config.reader import OptionReader
from spark_eos.config.source import SOURCE
from tests.generate import stale
from tests.spark.changes import Driven
from tests.spark.coming_from_kafka import (
    NOT_NEEDED,
    PAGE,
    SAME,
    TABLES,
    answer,
    kinds,
    of_spark,
    parsed,
)

USES = ("stream source", "batch source", "stream sink", "batch sink")
ROWS = [pytest.param(use, name, given, id=f"{use}-{name}") for use in USES for name, given in of_spark(use)]


@pytest.fixture
def engine(bench, tmp_path, benches):
    return Driven(bench, tmp_path, benches)


def copied(engine, use, given, topic="out"):
    """How many rows come of a read or a write with these options: ten are there."""
    place = {"topic": topic, "checkpointLocation": str(engine.folder / topic)}
    if use == "batch source":
        return len(engine.read(**{"subscribe": None, **given})[0])
    if use == "batch sink":
        engine.write(range(10), **{**given, "topic": topic})
    elif use == "stream sink":
        engine.run(None, {**given, **place})
    else:
        engine.run({"subscribe": None, **given}, place)
    return len(engine.out(topic))


@pytest.mark.since("4.2")
def test_the_page_is_current():
    text = PAGE.read_text("utf-8")
    assert sorted(kinds(text)) == sorted(TABLES)
    assert stale("tests.spark.coming_from_kafka") == [], "scripts/generate writes it"


def test_what_is_accepted_works(engine):
    """All options that mean the same, given to a source and to a sink, each for itself."""
    for number, row in enumerate(ROWS):
        use, name, given = row.values
        if answer(name, given, parsed(use)).verdict == SAME:
            assert copied(engine, use, given, f"out-{number}") == 10, (use, name)


@pytest.mark.parametrize("use", USES)
def test_what_is_not_needed_changes_nothing(use, engine):
    """All of it at once, dropped, is what none of it is."""
    found = dict(of_spark(use))
    names = [name for name, given in found.items() if answer(name, given, parsed(use)).verdict == NOT_NEEDED]
    assert len(names) > 60
    dropped = {name: found[name][name] for name in names if "=" not in name}
    base = {"subscribe": "src"} if use.endswith("source") else {"topic": "out"}
    given = {**base, **dropped, KAFKA_OPTIONS: "ignore"}
    assert parsed(use)(given) == parsed(use)(base)
    assert copied(engine, use, given) == 10


@pytest.mark.deep("batch source-kafka.max.poll.interval.ms")
@pytest.mark.parametrize(("use", "name", "given"), ROWS)
def test_any_case_has_the_same_answer(use, name, given):
    def spelled(spell):
        options = {spell(key): value for key, value in given.items()}
        return answer(spell(name), options, parsed(use)).verdict

    assert spelled(str.upper) == spelled(str.lower) == spelled(str)


def test_the_names_of_the_source_are_those_of_the_tables():
    """An option of Spark's connector that this project has is one of the table's, in its spelling."""
    for name, given in of_spark("stream source"):
        if answer(name, given, parsed("stream source")).verdict == SAME and not name.startswith("kafka."):
            assert name in SOURCE
            assert name in OptionReader(SOURCE, {name: given[name]})
