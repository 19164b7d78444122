"""A mirror sends every record that a writer can send, with its headers; it says where a header has no name."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.config.isolation import Isolation
from spark_eos.errors import InvalidRecordError
from spark_eos.extensions.mirror.out.sending import rows_of
from spark_eos.log.data.planner import plan
from spark_eos.storage.memory import MemoryStore
from tests.clients.test_every_value import KAFKA, NAMED, NAMELESS, log_of_an_earlier_version, shape


def sent(log):
    """What it sends of the topic."""
    state = log.follow()
    end = state.partitions[log.topic("t").topic_id, 0].end
    (fetch,) = plan(state, TopicPartition("t", 0), 0, end, Isolation.READ_COMMITTED, log.load)
    return rows_of(log.read(log.topic("t"), fetch), "t-0")


@settings(max_examples=30)
@given(NAMED)
def test_every_record_of_kafka(rows):
    log = Log.create(MemoryStore())
    Admin(log).create_topic("t")
    with Producer(log) as producer:
        producer.send_arrow("t", pa.Table.from_pylist(rows, KAFKA))
    found = [(key, value, tuple(headers or ())) for key, value, headers, _ in sent(log)]
    assert found == [shape(row) for row in rows]


@NAMELESS
def test_headers_that_an_earlier_version_took(header, monkeypatch):
    _, log = log_of_an_earlier_version(header, monkeypatch)
    with pytest.raises(InvalidRecordError, match="offset 3 of t-0 has a header that is null or has no name"):
        sent(log)
