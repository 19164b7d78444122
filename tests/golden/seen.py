"""What a reader can see of a log, as JSON: it stands beside each golden log."""

from __future__ import annotations

import json

from spark_eos.config.isolation import Isolation
from spark_eos.log.data.planner import end_offset, plan
from spark_eos.log.log import Log
from spark_eos.protocol.index import Kind
from spark_eos.protocol.publication import Publication
from spark_eos.protocol.state import Producer, State, Topic
from spark_eos.protocol.types import TopicPartition


def seen(log: Log) -> dict[str, object]:
    state = log.state
    found = {
        "log": state.log_id,
        "seq": state.seq,
        "floor": state.staging_floor,
        "config": dict(sorted(state.config.items())),
        "history": [state.rules, state.lineage.hex(), state.time_resets],
        "encrypted": [state.encrypted_at, state.encryption_key_id],
        "data": [state.data_url, state.data_placed_at, state.data_before],
        "topics": {name: _topic(log, topic) for name, topic in sorted(state.topics.items())},
        "producers": {str(one.producer_id): _producer(one) for _, one in sorted(state.producers.items())},
        **_groups(state),
        "queries": {
            name: [one.query_id, one.batch_id, one.stateful, one.sources, one.former]
            for name, one in sorted(state.queries.items())
        },
        "versions": [[*key, *known] for key, known in sorted(state.app_versions.items())],
        "publications": {name: _publication(one) for name, one in sorted(state.publications.items())},
        "publication floor": state.publication_floor,
    }
    as_json: dict[str, object] = json.loads(json.dumps(found, default=bytes.hex))
    return as_json


def _topic(log: Log, topic: Topic) -> dict[str, object]:
    partitions = []
    for number in range(topic.partitions):
        partition = log.state.partitions[topic.topic_id, number]
        at = TopicPartition(topic.name, number)
        rows = {}
        for isolation in Isolation:
            end = end_offset(partition, isolation)
            rows[isolation.value] = [
                [records.offset(i), {k: _plain(v) for k, v in row.items()}]
                for fetch in plan(log.state, at, partition.start, end, isolation, log.load)
                for records in [log.read(topic, fetch)]
                for i, row in enumerate(records.to_pylist())
            ]
        partitions.append(
            {
                "start": partition.start,
                "end": partition.end,
                "lso": partition.last_stable_offset,
                "kinds": [Kind(row.kind).name for row in partition.index.scan(0, log.load)],
                "rows": rows,
            }
        )
    return {"id": topic.topic_id, "config": dict(sorted(topic.config.items())), "partitions": partitions}


def _producer(one: Producer) -> list[object]:
    transaction = [one.number, one.transaction.value, one.started_seq]
    return [one.epoch, one.transactional_id, transaction, one.runs, one.prepared, one.decision]


def _groups(state: State) -> dict[str, object]:
    offsets = {
        group: {
            f"{topic}-{number}": [at.offset, at.metadata] for (topic, number), at in sorted(known.items())
        }
        for group, known in sorted(state.offsets.items())
    }
    members = {
        name: [
            *(group.generation, group.assignor, group.status),
            {
                one.member_id: [one.generation, one.instance_id, one.held]
                for _, one in sorted(group.members.items())
            },
        ]
        for name, group in sorted(state.groups.items())
    }
    return {"groups": offsets, "members": members}


def _publication(one: Publication) -> list[object]:
    versions = [
        [
            [version.sequence, version.entry, version.epoch, version.begun_seq, version.timestamp_ms],
            [sorted(version.schemas.items()), sorted(version.natives.items())],
            [
                [*key, pin.start, pin.end, [list(page.identity) for page in pin.pages]]
                for key, pin in sorted(version.pins.items())
            ],
        ]
        for version in one.versions
    ]
    settings = sorted(one.config.items())
    return [one.format, settings, one.topics, one.epoch, one.first, one.published is not None, versions]


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, (int, type(None))) else str(value)
