"""Breaks of what keeps columns apart while a topic's schema changes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_RULE = "spark_eos/protocol/schema_versions.py"
_FIELDS = "spark_eos/protocol/arrow_fields.py"
_WIDENING = "spark_eos/protocol/widening.py"
_CONVERSION = "spark_eos/log/schemas/conversion.py"
_EDITS = "spark_eos/log/schemas/edits.py"
_ALTERATION = "spark_eos/log/schemas/alteration.py"

_OF_RULE = ("tests/protocol/test_schema_versions.py",)
_OF_ROWS = ("tests/log/test_schema_evolution.py",)

MUTANTS = (
    Mutant(
        "fields-that-differ-in-case",
        "spark_eos/log/data/schema_limits.py",
        "            if pa.types.is_struct(type_):\n                _check_names(type_, path)\n",
        "",
        "a struct gets two fields that Spark takes for one, and can read neither",
        _OF_ROWS,
    ),
    Mutant(
        "schema-follows-anything",
        "spark_eos/protocol/actions/topics.py",
        "        _check_follows(topic, action.schema)\n",
        "",
        "any schema may become the next version",
        _OF_RULE,
    ),
    Mutant(
        "schema-version-not-compared",
        _RULE,
        "    if number != len(versions) + 1:",
        "    if number is None:",
        "of two changes at once the second one undoes the first",
        _OF_RULE,
    ),
    Mutant(
        "field-id-twice",
        _RULE,
        "    if len({*ids}) < len(ids):",
        "    if False:",
        "two columns share the values of one",
        _OF_RULE,
    ),
    Mutant(
        "field-id-used-again",
        _RULE,
        "            if inner.field_id <= highest:",
        "            if inner.field_id < 0 * highest:",
        "a new column shows the values of one that was dropped",
        _OF_RULE,
    ),
    Mutant(
        "highest-id-of-the-newest",
        _RULE,
        "(field.field_id for version in versions for",
        "(field.field_id for version in versions[-1:] for",
        "the id of a column that was dropped is used again",
        (*_OF_RULE, *_OF_ROWS),
    ),
    Mutant(
        "column-not-null-again",
        _RULE,
        "    if old.nullable and not new.nullable:",
        "    if False:",
        "a column with nulls is declared not null",
        _OF_RULE,
    ),
    Mutant(
        "new-column-not-null",
        _RULE,
        "        if not field.nullable:",
        "        if False:",
        "a new column is not null, and older rows have no value for it",
        _OF_RULE,
    ),
    Mutant(
        "keys-of-maps-change",
        _RULE,
        "        if _plain(old.children[0]) != _plain(new.children[0]):",
        "        if False:",
        "keys of a map get another type",
        _OF_RULE,
    ),
    Mutant(
        "narrower-decimal",
        _WIDENING,
        "to[0] >= of[0] and to[1] >= of[1]",
        "to[0] >= of[0]",
        "a decimal loses digits behind the point",
        _OF_RULE,
    ),
    Mutant(
        "long-in-ten-digits",
        _WIDENING,
        '"int64": 20}',
        '"int64": 10}',
        "a bigint becomes a decimal that does not hold it",
        _OF_RULE,
    ),
    Mutant(
        "fields-without-ids",
        _FIELDS,
        "    elif any(not field.field_id for field in named_fields(fields)):",
        "    elif False:",
        "a column without an id follows no column",
        _OF_RULE,
    ),
    Mutant(
        "columns-by-place",
        _CONVERSION,
        "        column = table.column(have.physical.names[position])",
        "        column = table.column(min(n, position))",
        "rows of an older version are read by place",
        _OF_ROWS,
    ),
    Mutant(
        "dropped-columns-are-null",
        _CONVERSION,
        "        if 0 < field.field_id <= highest_id(versions[: have.version]):",
        "        if False:",
        "a read of the past shows null for values that rolling has removed",
        _OF_ROWS,
    ),
    Mutant(
        "nested-fields-by-place",
        _CONVERSION,
        "        field, position = type_.field(n), at.get(node.field_id)",
        "        field, position = type_.field(n), n if n < len(have.children) else None",
        "fields of structs are read by place",
        _OF_ROWS,
    ),
    Mutant(
        "rolling-omits-by-name",
        "spark_eos/maintenance/segments/form.py",
        "    return names_under(layout, layout.stored(omitted).names, layout_of(topic))",
        "    return {*layout.stored(omitted).names}",
        "rolling leaves out a column that was renamed",
        _OF_ROWS,
    ),
    Mutant(
        "key-column-widened",
        _EDITS,
        "        if field_id in keys and after[field_id].type != column.type:",
        "        if False:",
        "a key goes to another partition than before",
        _OF_ROWS,
    ),
    Mutant(
        "compacted-column-dropped",
        _EDITS,
        '        if field_id not in after and keys and "compact" in',
        '        if False and "compact" in',
        "a row becomes a tombstone since its only column was dropped",
        _OF_ROWS,
    ),
    Mutant(
        "altered-to-what-parquet-does-not-have",
        _ALTERATION,
        "        check_segments(topic.name, topic.config if",
        "        (lambda *_: None)(topic.name, topic.config if",
        "a topic of Parquet segments gets a column that they cannot have, and stays in Arrow files without a word",
        _OF_ROWS,
    ),
    Mutant(
        "key-columns-keep-the-old-name",
        _ALTERATION,
        "            if following != names:",
        "            if False:",
        "a key column is renamed, and rows have no key any more",
        _OF_ROWS,
    ),
    Mutant(
        "narrow-keys-hashed-as-they-are",
        "spark_eos/clients/producer/accumulator.py",
        "        rows = self._fitting(rows)\n",
        "",
        "the key of a narrower row goes to another partition",
        _OF_ROWS,
    ),
    Mutant(
        "past-in-columns-of-now",
        "spark_eos/log/time_travel.py",
        "    return replace(now, schemas=(*now.schemas, past.schemas[-1]))",
        "    return now",
        "a read of the past has the columns of now",
        _OF_ROWS,
    ),
    Mutant(
        "same-names-other-columns",
        "spark_eos/spark/topics.py",
        "        if not problems and not changes:",
        "        if not problems:",
        "a running query goes on when columns have changed places",
        ("tests/spark/test_column_check.py",),
    ),
    Mutant(
        "bounds-of-tombstones",
        "spark_eos/protocol/rules/bounds.py",
        '    "BatchRef.base_sequence": Bounds(-MAX_NUMBER, 2**32),',
        '    "BatchRef.base_sequence": Bounds(INT32.least, 2**32),',
        "a partition with a tombstone is not compacted by a clock of today",
        _OF_ROWS,
    ),
)
