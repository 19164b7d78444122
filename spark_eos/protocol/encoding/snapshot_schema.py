"""The Avro schemas of snapshots. A schema that was written never changes: a new one is added after it."""

from __future__ import annotations

from functools import cache
from typing import Any

from spark_eos.protocol.encoding.avro import array, fingerprint, optional, record
from spark_eos.protocol.encoding.index_pages import PIECES
from spark_eos.protocol.encoding.snapshot_publications import PUBLICATIONS
from spark_eos.protocol.encoding.values import DECIDER, FOLLOWERS, OFFSET_COLUMNS, file_of, rows_of, source_of

__all__ = ["WRITTEN", "schemas"]


def _partitions(version: int) -> dict[str, Any]:
    """All partitions at once: a column of numbers costs a hundredth of a record for each.

    ``runs`` are partitions whose numbers follow one another. Of those that have any, ``others`` have transactions and
    pieces; ``tails`` the newest rows (`spark_eos.protocol.index_rows.Rows.pack`): for each the number of its
    partition, how many rows are open, bytes and blocks. ``lists`` are the heads of blocks: each row's number in
    ``heads``, of which each has kind, producer id, epoch, transaction number, and the number of its file or -1.
    """
    longs = array("long")
    return record(
        "Partitions",
        runs=array(record("Run", topic_id="string", first="long", count="long")),
        starts=longs,
        ends=longs,
        others=array(record("Other", at="long", open=array(longs), aborted=array(longs), pieces=PIECES)),
        tails=longs,
        body="bytes",
        blocks=longs,
        lists=array(longs),
        heads=longs,
        files=array(file_of(3 if version < 7 else 8)),
    )


def _schema(version: int) -> dict[str, Any]:
    """The schema of a version.

    1: the first. 2: where a transaction began. 3: names of sources, former ones, and whether a query keeps state.
    4: the rules by which requests are judged, the lineages, and how often the time was set back.
    5: offsets, and partitions that a producer or a member has, as columns. 6: versions of batch jobs.
    7: Parquet files, publications. 8: since when data files are encrypted. 9: prepared transactions.
    10: transactions over several logs. 11: where data files are.
    """
    longs, text = array("long"), array("string")
    pair = record("Pair", name="string", value="string")
    key = record("Key", topic_id="string", partition="long")
    offset = record(
        "CommittedOffset",
        topic="string",
        partition="long",
        topic_id="string",
        offset="long",
        metadata="string",
        timestamp_ms="long",
    )
    place = record(
        "PartitionOffset",
        topic="string",
        topic_id="string",
        partition="long",
        offset="long",
        metadata="string",
    )
    partition = record(
        "Partition",
        key=key,
        start="long",
        end="long",
        open=array(longs),
        aborted=array(longs),
        pieces=PIECES,
        tail=rows_of(file_of(3)),
    )
    prepared = record(
        "Prepared",
        epoch="long",
        committed=optional("boolean"),
        **({"decider": optional(DECIDER.schema(version))} if version >= 10 else {}),
    )
    decision = record(
        "Decision",
        epoch="long",
        number="long",
        history="bytes",
        followers=FOLLOWERS.schema(version),
        waiting=text,
        committed=optional("boolean"),
    )
    producer = record(
        "Producer",
        producer_id="long",
        epoch="long",
        transactional_id=optional("string"),
        timeout_ms="long",
        number="long",
        transaction="string",
        started_ms="long",
        last_ms="long",
        touched=array("Key" if version < 4 else key) if version < 5 else array("Run"),
        pending=array(record("Pending", group="string", offset=offset)),
        sequences=array(record("Sequences", key="Key", ranges=array(longs)))
        if version < 5
        else record("Windows", runs=array("Run"), counts=longs, numbers=longs),
        runs=text,
        **({"started_seq": "long"} if version >= 2 else {}),
        **({"prepared": optional(prepared)} if version >= 9 else {}),
        **({"decision": optional(decision)} if version >= 10 else {}),
    )
    member = record(
        "Member",
        member_id="string",
        topics=text,
        assignors=text,
        session_timeout_ms="long",
        instance_id=optional("string"),
        client_id="string",
        generation="long",
        held=array("Key" if version < 5 else "Run"),
    )
    group = record(
        "Group",
        name="string",
        generation="long",
        assignor="string",
        members=array(member),
        assignment=array(
            record("Share", member_id="string", partitions=array("Key" if version < 5 else "Run"))
        ),
        empty_since_ms="long",
    )
    source = (
        source_of("Offsets")
        if version >= 5
        else record(
            "SourceProgress",
            start=optional("string"),
            end=optional("string"),
            group=optional("string"),
            start_offsets=array(place),
            end_offsets=array("PartitionOffset"),
            **({"name": optional("string")} if version >= 3 else {}),
        )
    )
    query = record(
        "Query",
        name="string",
        query_id="string",
        batch_id="long",
        sources=array(source),
        **({"former": array("SourceProgress"), "stateful": optional("boolean")} if version >= 3 else {}),
    )
    topic = record(
        "Topic",
        name="string",
        topic_id="string",
        partitions="long",
        config=array(pair),
        schemas=array("bytes"),
    )
    return record(
        "Snapshot",
        seq="long",
        log_id="string",
        timestamp_ms="long",
        next_producer_id="long",
        staging_floor="long",
        **(
            {"rules": "long", "lineage": "bytes", "lineages": "bytes", "time_resets": "long"}
            if version >= 4
            else {}
        ),
        snapshot_interval="long",
        entries_per_folder="long",
        topics=array(topic),
        config=array("Pair"),
        partitions=array(partition) if version < 4 else _partitions(version),
        producers=array(producer),
        offsets=array(record("Offsets", group="string", offsets=array("CommittedOffset")))
        if version < 5
        else array(record("GroupOffsets", group="string", offsets=OFFSET_COLUMNS, timestamps=longs)),
        groups=array(group),
        queries=array(query),
        **(
            {
                "app_versions": array(
                    record(
                        "AppVersion", app_id="string", topic_id="string", version="long", timestamp_ms="long"
                    )
                )
            }
            if version >= 6
            else {}
        ),
        **({"publications": PUBLICATIONS, "publication_floor": "long"} if version >= 7 else {}),
        **({"encrypted_at": "long", "encryption_key_id": "string"} if version >= 8 else {}),
        **({"data_url": "string", "data_placed_at": "long"} if version >= 11 else {}),
        **(
            {"data_before": optional(record("DataBefore", url="string", begun_ms="long", copied_at="long"))}
            if version >= 12
            else {}
        ),
    )


WRITTEN = tuple(map(_schema, range(1, 13)))
"""Every schema of snapshots that a release ever wrote, oldest first."""


@cache
def schemas() -> dict[bytes, Any]:
    """All schemas by their fingerprints, parsed."""
    from fastavro.schema import parse_schema

    return {fingerprint(schema): parse_schema(schema) for schema in WRITTEN}
