"""How entries are written down: one Avro schema for each version, known by its fingerprint.

A field or an action that is added makes a new schema; the old one stays in `WRITTEN`, and what it lacks
gets the default of the action's class. Records have the names of the protocol's classes, and their fields
the names of theirs, but for the batches of a file: those are columns, which are much faster to read.
"""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = [
    "BATCH_COLUMNS",
    "FORMAT_VERSION",
    "OFFSETS",
    "ROW_COLUMNS",
    "WRITTEN",
    "array",
    "file_of",
    "fingerprint",
    "known_schemas",
    "newest",
    "optional",
    "record",
    "rows_of",
    "rules_of",
    "source_of",
]

FORMAT_VERSION = 1
"""Version of the frame around the record; readers refuse newer ones."""

BATCH_COLUMNS = (
    "partition",
    "count",
    "position",
    "length",
    "crc",
    "min_timestamp_ms",
    "max_timestamp_ms",
    "base_sequence",
)
"""The columns of a file's batches, all of one length."""


ROW_COLUMNS = (
    *("base_offset", "count", "kind", "producer_id", "epoch", "number", "max_timestamp_ms"),
    *("file", "position", "length", "crc", "records", "min_timestamp_ms", "batch_max_timestamp_ms"),
    "base_sequence",
)
"""The columns of index rows, all of one length; ``file`` is a number in the files listed beside them, or -1."""


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    """Avro's schema of a record."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": kind} for field, kind in fields.items()],
    }


def array(items: Any) -> dict[str, Any]:
    """Avro's schema of an array."""
    return {"type": "array", "items": items}


def optional(kind: Any) -> list[Any]:
    """Avro's schema of a value that may be missing."""
    return ["null", kind]


def file_of(version: int) -> dict[str, Any]:
    """Avro's schema of a `FileRef`, as that version of the entries has it."""
    fields: dict[str, Any] = {"name": "string", "size": "long", "schema_version": "long"}
    since_3 = {"offsets": "boolean"} if version >= 3 else {}
    return record("FileRef", **fields, omitted=array("string"), **since_3)


def rows_of(file: Any) -> dict[str, Any]:
    """Avro's schema of index rows, with that of their files."""
    return record("Rows", files=array(file), **{name: array("long") for name in ROW_COLUMNS})


OFFSETS = record(
    "Offsets",
    runs=array(record("OffsetRun", topic="string", topic_id="string", first="long", count="long")),
    offsets=array("long"),
    metadata=array("string"),
)
"""`PartitionOffset`s in their order. ``metadata`` is empty if that of all is."""


def source_of(offsets: Any) -> dict[str, Any]:
    """Avro's schema of a `SourceProgress`, with that of its offsets, or their name.

    ``start_is_text`` says that ``start`` is left out: it is the text of ``start_offsets``.
    """
    return record(
        "SourceProgress",
        start=optional("string"),
        end=optional("string"),
        group=optional("string"),
        start_offsets=offsets,
        end_offsets="Offsets",
        start_is_text="boolean",
        end_is_text="boolean",
        name=optional("string"),
    )


def _entry(version: int) -> dict[str, Any]:
    """The schema of a version. Avro defines a named type where it is met first and names it later.

    1: the first. 2: consumer groups, expiry, and settings of the log. 3: snapshots and rewritten segments.
    4: names of sources, and what is known of a query's state.
    5: which history an entry was put behind, whether its clock was checked, and a log's time set back; its requests are
    judged by rules 2 (`spark_eos.protocol.types.RULES`). 6: offsets of partitions as columns (`OFFSETS`).
    """
    pair = record("Pair", name="string", value="string")
    stamp = record("ProducerStamp", producer_id="long", epoch="long", number="long")
    offset = record(
        "PartitionOffset",
        topic="string",
        topic_id="string",
        partition="long",
        offset="long",
        metadata="string",
    )
    many = array(offset) if version < 6 else OFFSETS
    many_again = array("PartitionOffset") if version < 6 else "Offsets"
    file = file_of(version)
    batches = record("BatchRefs", **{column: array("long") for column in BATCH_COLUMNS})
    name: dict[str, Any] = {"name": optional("string")} if version >= 4 else {}
    since_4 = {"rules": "long", "stateful": "boolean", "state_loss": "boolean"} if version >= 4 else {}
    actions = [
        record("CreateLog", log_id="string")
        if version < 3
        else record("CreateLog", log_id="string", snapshot_interval="long", entries_per_folder="long"),
        record(
            "CreateTopic",
            name="string",
            topic_id="string",
            partitions="long",
            config=array(pair),
            schema=optional("bytes"),
        ),
        record(
            "AlterTopic",
            name="string",
            topic_id="string",
            partitions=optional("long"),
            config=optional(array("Pair")),
            schema=optional("bytes"),
        ),
        record("DeleteTopic", name="string", topic_id="string"),
        record(
            "InitProducer",
            producer_id="long",
            epoch="long",
            transactional_id=optional("string"),
            timeout_ms="long",
            run_id=optional("string"),
        ),
        record(
            "AppendBatches",
            producer=stamp,
            topics=array("Pair"),
            files=array(record("StagedFile", topic="string", file=file, batches=batches)),
        ),
        record("CommitOffsets", group="string", offsets=many, producer=optional("ProducerStamp"))
        if version == 1
        else record(
            "CommitOffsets",
            group="string",
            offsets=many,
            producer=optional("ProducerStamp"),
            member=optional(
                record("Membership", member_id="string", generation="long", instance_id=optional("string"))
            ),
        ),
        record(
            "CommitMicroBatch",
            transactional_id="string",
            query_id="string",
            run_id="string",
            batch_id="long",
            sources=array(
                source_of("Offsets")
                if version >= 6
                else record(
                    "SourceProgress",
                    start=optional("string"),
                    end=optional("string"),
                    group=optional("string"),
                    start_offsets=array("PartitionOffset"),
                    end_offsets=array("PartitionOffset"),
                    **name,
                )
            ),
            **since_4,
        ),
        record("EndTransaction", producer="ProducerStamp", commit="boolean"),
        record("AdvanceLogStart", offsets=many_again),
        record("RaiseStagingFloor", seq="long"),
        *(() if version == 1 else _actions_v2()),
        *(() if version < 3 else _actions_v3()),
        *(() if version < 5 else (record("ResetLogTime", timestamp_ms="long"),)),
    ]
    checked = {"clock_checked": "boolean"} if version >= 5 else {}
    request = record(
        "Request",
        request_id={"type": "fixed", "name": "RequestId", "size": 16},
        timestamp_ms="long",
        writer="string",
        actions=array(actions),
        **checked,
    )
    since_5 = {"previous": "bytes"} if version >= 5 else {}
    return record("Entry", seq="long", requests=array(request), **since_5)


def _actions_v2() -> list[dict[str, Any]]:
    numbered = record("NumberedTopic", name="string", value="long")
    return [
        record("DeleteOffsets", group="string", partitions=array(numbered)),
        record(
            "JoinGroup",
            group="string",
            member_id="string",
            topics=array("string"),
            assignors=array("string"),
            session_timeout_ms="long",
            instance_id=optional("string"),
            client_id="string",
        ),
        record("SyncGroup", group="string", member_id="string", generation="long"),
        record("LeaveGroup", group="string", members=array("string"), silent_ms="long"),
        record("ExpireTransaction", producer="ProducerStamp", waited_ms="long"),
        record("ExpireProducers", producers=array("long")),
        record("ExpireTransactionalIds", transactional_ids=array("string")),
        record("ExpireOffsets", group="string", partitions=array("NumberedTopic")),
        record("AlterLog", config=array("Pair")),
    ]


def _actions_v3() -> list[dict[str, Any]]:
    return [
        record(
            "ReplaceSegments",
            topic="string",
            topic_id="string",
            partition="long",
            base_offset="long",
            next_offset="long",
            replaced="long",
            rows=rows_of("FileRef"),
            staged=array("string"),
        )
    ]


WRITTEN = (_entry(1), _entry(2), _entry(3), _entry(4), _entry(5), _entry(6))
"""Every schema that a release ever wrote, oldest first; the last one is written now."""


def fingerprint(schema: dict[str, Any]) -> bytes:
    """The 8 bytes of Avro's CRC-64 (Rabin) fingerprint of the schema's canonical form."""
    from fastavro.schema import fingerprint as of_text
    from fastavro.schema import to_parsing_canonical_form

    return bytes.fromhex(of_text(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


@cache
def known_schemas() -> dict[bytes, Any]:
    """Parsed schemas by fingerprint, parsed once in a process."""
    from fastavro.schema import parse_schema

    return {fingerprint(schema): parse_schema(schema) for schema in WRITTEN}


def rules_of(schema: Any) -> int:
    """The rules by which entries of this schema, one of `known_schemas`, are judged."""
    since_5 = list(known_schemas().values())[4:]
    return 2 if any(schema is one for one in since_5) else 1


@cache
def newest() -> tuple[bytes, Any]:
    """Fingerprint and parsed schema of what is written now."""
    return list(known_schemas().items())[-1]
