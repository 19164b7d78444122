"""One record, written by a producer, as ``eoslog produce`` would; the answer is its offset."""

from __future__ import annotations

import json
from contextlib import suppress

import pyarrow as pa

from spark_eos.cli.console.intake import JsonRecords, TypedRows
from spark_eos.clients.producer.producer import Producer
from spark_eos.errors import EosLogError, InvalidRecordError, InvalidRequestError
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question
from spark_eos.extensions.ui.writes.change import WRITER, Changing, Results, change
from spark_eos.log.topics import codec_of, schema_of, topic_of
from spark_eos.log.values.json_values import loads
from spark_eos.protocol.state import State, Topic

_SETTINGS = {
    "client.id": WRITER,
    "auto.create.topics.enable": "false",
    "delivery.timeout.ms": "30000",  # A person waits.
}


def produce(follower: Follower, question: Question) -> Answer:
    """Write a record: key, value and headers; or an object with the columns of a topic that has them."""
    name, topic_id = question.text("topic"), question.text("id")
    topic = follower.topic(name)
    rows = _rows(topic, question)
    number = question.number("partition", -1, least=-1)

    def check(state: State) -> None:
        if topic_of(state, name, follower.url).topic_id != topic_id:
            raise InvalidRequestError(
                f"topic {name!r} was deleted, and created again: it is not the one that was shown. Nothing was written"
            )

    def work(log: Changing) -> None:
        producer = Producer(log, _SETTINGS)
        try:
            future = producer.send_arrow(name, rows, None if number < 0 else number)
            with suppress(EosLogError):
                producer.flush()
            future.result()
        finally:
            with suppress(EosLogError):  # The future has raised that of the record.
                producer.close()

    def tell(results: Results) -> Answer:
        (placed,) = results[0]
        return {
            "text": f"written to {placed.topic}-{placed.partition} at offset {placed.base_offset}",
            "partition": placed.partition,
            "offset": placed.base_offset,
        }

    return change(follower, question, work, tell, check)


def _rows(topic: Topic, question: Question) -> pa.RecordBatch:
    value = question.text("value", "", most=1 << 20)
    schema = schema_of(topic)
    try:
        if schema is not None:
            # A line of `eoslog produce`: JSON takes breaks of lines for blanks.
            return TypedRows(schema).rows([value.encode()], 1)
        codec = codec_of(topic)
        key = json.dumps(question.text("key", "") or None)
        text = "null" if question.flag("null") else json.dumps(value) if codec is None else _json(value)
        headers = json.dumps(
            [_header(line) for line in question.text("headers", "").splitlines() if line.strip()]
        )
        line = f'{{"key": {key}, "value": {text}, "headers": {headers}}}'
        return JsonRecords(codec).rows([line.encode()], 1)
    except InvalidRecordError as error:
        raise InvalidRecordError(str(error).removeprefix("line 1: ")) from None


def _json(text: str) -> str:
    """As it is, if it is JSON: all digits of its numbers."""
    try:
        loads(text)
    except ValueError as error:
        raise InvalidRecordError(f"value: it is no JSON: {error}") from None
    return text


def _header(line: str) -> list[str]:
    name, sign, value = line.partition("=")
    if not sign or not name:
        raise InvalidRecordError(f"headers: {line!r} is not NAME=VALUE")
    return [name, value]
