"""A process of either version: it does what the lines of its input say, and answers each with a line of JSON.

It imports nothing of the tests: the version is the one on its PYTHONPATH. With ``--newer`` it writes a format that is
newer than that of this version.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import spark_eos
from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import EosLogError
from spark_eos.log.log import Log
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.maintenance.verify.verify import verify
from spark_eos.protocol.actions.declaration import DECLARED, Field, declare
from spark_eos.protocol.encoding.avro import LONG
from spark_eos.protocol.encoding.schema import newest

TOPIC = "events"


class Program:
    """The clients of one process. They are made when they are first used."""

    def __init__(self, log: str, name: str) -> None:
        self.log = log
        self.name = name
        self._plain: Any = None
        self._transactional: Any = None
        self._member: Any = None

    def where(self) -> str:
        return str(spark_eos.__file__)

    def format(self) -> str:
        return newest()[0].hex()

    def create(self) -> str:
        with Admin(self.log) as admin:
            admin.create_topic(TOPIC)
        return TOPIC

    def send(self, value: str) -> str:
        if self._plain is None:
            self._plain = Producer(self.log, {"enable.idempotence": True})
        self._plain.send(TOPIC, value.encode()).result()
        return value

    def begin(self, *values: str) -> list[str]:
        if self._transactional is None:
            self._transactional = Producer(self.log, {"transactional.id": self.name})
            self._transactional.init_transactions()
        self._transactional.begin_transaction()
        for value in values:
            self._transactional.send(TOPIC, value.encode())
        self._transactional.flush()
        return list(values)

    def commit(self) -> str:
        self._transactional.commit_transaction()
        return "committed"

    def abort(self) -> str:
        self._transactional.abort_transaction()
        return "aborted"

    def poll(self) -> list[str]:
        """What is new for the group, whose offsets are committed."""
        if self._member is None:
            settings = {
                "group.id": "readers",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
            self._member = Consumer(self.log, {**settings, "enable.auto.commit": False})
            self._member.subscribe([TOPIC])
        found = []
        while records := self._member.poll(timeout_ms=500):
            found += [record.value.decode() for record in records]
        self._member.commit()
        return found

    def leave(self) -> str:
        self._member.close()
        self._member = None
        return "left"

    def read(self) -> list[str]:
        """All that is committed, by a consumer without a group."""
        with Consumer(self.log, {"isolation.level": "read_committed"}) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0)])
            consumer.seek_to_beginning()
            found = []
            while records := consumer.poll(timeout_ms=0):
                found += [record.value.decode() for record in records]
            return found

    def maintain(self) -> str:
        for _done in Maintainer(Log.open(self.log)).run():
            pass
        return "maintained"

    def verify(self) -> list[str]:
        found: list[str] = []
        verify(self.log, lambda one: found.append(str(one)))
        return found


class Newer(NamedTuple):
    """An action that no release has."""

    number: int


def write_a_newer_format() -> None:
    number = max(one.number for one in DECLARED.values()) + 1
    since = max(one.newest for one in DECLARED.values()) + 1
    declare(
        Newer,
        number=number,
        since=since,
        fields=(Field("number", LONG),),
        rule=lambda state, _: (state, None),
    )


def _say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Answer line by line."""
    log, name, *options = sys.argv[1:]
    if options == ["--newer"]:
        write_a_newer_format()
    program = Program(log, name)
    for line in sys.stdin:
        name, *arguments = line.split()
        command: Callable[..., object] = getattr(program, name)
        try:
            _say({"answer": command(*arguments)})
        except EosLogError as error:
            _say({"error": type(error).__name__, "text": str(error)})


if __name__ == "__main__":
    main()
