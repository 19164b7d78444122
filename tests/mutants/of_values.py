"""Breaks of values in Avro and JSON, and of dead letters."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_AVRO = "spark_eos/extensions/value_formats/avro/"
_OF_AVRO = (
    "tests/extensions/value_formats/test_avro.py",
    "tests/extensions/value_formats/test_resolution.py",
)
_OF_CONFLUENT = ("tests/extensions/value_formats/test_confluent.py",)

MUTANTS = (
    Mutant(
        "bytes-left-over",
        _AVRO + "codec.py",
        "        leftover = np.flatnonzero(lanes.at < lanes.end)",
        "        leftover = np.flatnonzero(lanes.at > lanes.end)",
        "a value of another schema is read as if it were one of this schema",
        ("tests/extensions/value_formats/test_resolution.py", "tests/extensions/value_formats/test_codec.py"),
    ),
    Mutant(
        "value-ends-early",
        _AVRO + "lanes.py",
        "(sizes < 0) | (sizes > self.end - self.at)",
        "(sizes < 0) | (sizes > len(self.data) - self.at)",
        "a value that was cut off takes bytes of the next record",
        _OF_AVRO,
    ),
    Mutant(
        "other-unit-of-time",
        _AVRO + "resolution.py",
        "    elif writer.logical == reader.logical or writer.logical is None or reader.logical is None:",
        "    elif True:",
        "milliseconds are read as microseconds",
        _OF_AVRO,
    ),
    Mutant(
        "registry-refusal-is-a-broken-value",
        _AVRO + "codec.py",
        "            raise  # The registry refuses the question: it is no fault of the value.",
        "            problems.add(rows, 'refused')\n            return None",
        "a wrong password of the registry sends all records to the dead letters",
        _OF_CONFLUENT,
    ),
    Mutant(
        "cut-refusal-is-raw",
        "spark_eos/extensions/value_formats/registry.py",
        "    except (OSError, HTTPException, ValueError):\n        return",
        "    except OSError:\n        return",
        "a registry whose reply is cut ends a query with an error that nothing documents, and without another attempt",
        _OF_CONFLUENT,
    ),
    Mutant(
        "old-schema-forgotten",
        "spark_eos/extensions/value_formats/settings.py",
        '    return {**new, "value.writer.schemas": _with_writer(before, after)}',
        "    return new",
        "records cannot be read any more after the schema of their topic has changed",
        ("tests/extensions/value_formats/test_on_spark.py", "-k", "schema_changes", *_OF_CONFLUENT),
    ),
    Mutant(
        "id-of-another-schema",
        "spark_eos/extensions/value_formats/settings.py",
        "before.schema_id == after.schema_id if is_by_id",
        "before.schema_id == after.schema_id < 0 if is_by_id",
        "two schemas have one id, and values of the first are read with the second",
        ("tests/extensions/value_formats/test_codec.py",),
    ),
    Mutant(
        "json-of-two-rows",
        "spark_eos/extensions/value_formats/json_codec.py",
        "    if table.num_rows != len(values):",
        "    if False:",
        "two objects in one value move all later rows",
        ("tests/extensions/value_formats/test_json.py",),
    ),
    Mutant(
        "json-that-goes-on",
        "spark_eos/extensions/value_formats/json_codec.py",
        'pc.all(pc.and_(pc.starts_with(lines, "{"), pc.ends_with(lines, "}")))',
        'pc.all(pc.starts_with(lines, "{"))',
        "an object that goes on in the next value makes up for two in one",
        ("tests/extensions/value_formats/test_json.py",),
    ),
    Mutant(
        "dead-letters-not-staged",
        "spark_eos/spark/sink/task.py",
        "        if letters is not None and self._dead_topic is not None:",
        "        if False:",
        "broken values are lost",
        ("tests/extensions/value_formats/test_on_spark.py", "-k", "dead_letter"),
    ),
    Mutant(
        "broken-rows-written",
        "spark_eos/spark/sink/dead_letters.py",
        "    return rows.filter(pc.is_null(column))",
        "    return rows",
        "a broken value is a dead letter, and a row of nulls as well",
        ("tests/extensions/value_formats/test_on_spark.py", "-k", "dead_letter"),
    ),
    Mutant(
        "values-with-one-name-twice",
        "spark_eos/spark/sink/values.py",
        "        check_limits(columns)\n",
        "",
        "values are written that Spark cannot read as columns",
        ("tests/extensions/value_formats/test_on_spark.py", "-k", "case_alone"),
    ),
)
