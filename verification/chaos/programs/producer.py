"""A producer of numbered records, which writes down what it asks for and what it is told.

Arguments: log, ``plain`` or ``tx``, topic, partitions, the prefix of its values, its history, its notes, a file
that tells it to stop, a seed. It ends with status 1 after any error that its library does not get over, as
programs do that are started again by somebody.
"""

from __future__ import annotations

import random
import sys
import time
from concurrent.futures import Future
from pathlib import Path

from spark_eos import Producer, RecordMetadata, TopicPartition
from spark_eos.errors import (
    AbortableError,
    CommitOutcomeLostError,
    CommitOutcomeUnknownError,
    EosLogError,
    FatalError,
    RetriableError,
)
from spark_eos.testing.history import Recorder, Send, Token
from verification.chaos.journal import Notes, synced

ABORTED, STREAMED = 0.25, 0.3
PAUSE_S = {"plain": 0.03, "tx": 1.2}
"""Plain ones write often: so many batches that they get sealed, and rewritten, within minutes."""
MOST = {"plain": 3, "tx": 16}
"""Records at a time."""
TIMEOUT_MS = 2_000


class Writer:
    """Sends until it is told to stop."""

    def __init__(self, arguments: list[str]) -> None:
        url, self.how, self.topic, partitions, self.prefix, history, notes, stop, seed = arguments
        self.partitions = int(partitions)
        self.recorder = Recorder(file=synced(Path(history)))
        self.notes = Notes(Path(notes))
        self.stop = Path(stop)
        self.chance = random.Random(seed)
        self.number = 0
        # What is sent together goes in together: nothing but `flush` sends it.
        settings: dict[str, object] = {"linger.ms": 10_000, "delivery.timeout.ms": 20_000}
        if self.how == "tx":
            name, _, _ = self.prefix.rpartition(".")
            settings = {"transactional.id": name, "transaction.timeout.ms": TIMEOUT_MS}
        self.producer = Producer(url, settings)

    def run(self) -> None:
        """Until the file appears."""
        if self.how == "tx":
            patiently(self.producer.init_transactions)
        self.notes.add("ready")
        while not self.stop.exists():
            if self.how == "tx":
                self.transaction()
            else:
                self.batch()
            time.sleep(PAUSE_S[self.how] * (0.5 + self.chance.random()))
        self.producer.close()

    def sends(self) -> list[Send]:
        """Some new records: no value comes twice, not even after a refusal."""
        count = self.chance.randint(1, MOST[self.how])
        self.number += count
        return [
            Send(
                TopicPartition(self.topic, self.chance.randrange(self.partitions)),
                f"{self.prefix}/{number:06}",
            )
            for number in range(self.number - count, self.number)
        ]

    def send(self, one: Send) -> Future[RecordMetadata]:
        """Hand a record to the producer; the key is one of ten."""
        at = one.partition
        return self.producer.send(at.topic, one.value, key=f"k{one.value[-1]}", partition=at.partition)

    def batch(self) -> None:
        """Records outside of transactions, in one request."""
        sends = self.sends()
        token = self.recorder.invoke(self.prefix, "send", sends)
        futures = [self.send(one) for one in sends]
        self.producer.flush()
        known, unknown = [], False
        for one, future in zip(sends, futures, strict=True):
            try:
                known.append(Send(one.partition, one.value, future.result().offset))
            except CommitOutcomeUnknownError as error:
                unknown = True
                self.trouble(error)
            except EosLogError as error:
                self.trouble(error)
        if unknown:
            self.recorder.info(token, known)
        elif known:
            self.recorder.ok(token, known)
        else:
            self.recorder.fail(token)

    def transaction(self) -> None:
        """Committed or aborted; some are streamed, so that others see them open."""
        sends, chance = self.sends(), self.chance
        streamed = len(sends) > 2 and chance.random() < STREAMED
        token = self.recorder.invoke(
            self.prefix, "transaction", sends, transaction=self.prefix, streamed=streamed
        )
        futures = []
        try:
            self.producer.begin_transaction()
            for number, one in enumerate(sends):
                futures.append(self.send(one))
                if streamed and number == len(sends) // 2:
                    self.producer.flush()
            time.sleep(0.3 * chance.random())
            if chance.random() < ABORTED:
                patiently(self.producer.abort_transaction)
                self.recorder.fail(token)
                return
            patiently(self.producer.commit_transaction)
        except (AbortableError, RetriableError) as error:
            self.trouble(error)
            self.give_back(token)
        except CommitOutcomeLostError:
            raise  # It is not known.
        except FatalError:
            # Refused for certain: the producer that fenced this one has aborted what it appended.
            self.recorder.fail(token)
            raise
        except EosLogError as error:  # the store said no
            self.trouble(error)
            self.give_back(token)
        else:
            told = [
                Send(one.partition, one.value, future.result(0).offset)
                for one, future in zip(sends, futures, strict=True)
            ]
            self.recorder.ok(token, told)

    def give_back(self, token: Token) -> None:
        """Abort; if even that fails, the transaction's timeout will do it."""
        try:
            patiently(self.producer.abort_transaction)
        finally:
            self.recorder.fail(token)

    def trouble(self, error: EosLogError) -> None:
        """Note what went wrong without an end."""
        self.notes.add("error", error=type(error).__name__, text=str(error)[:400])


def patiently(call: object) -> None:
    """The very same call again after trouble that passes; for good, since only that settles the outcome."""
    assert callable(call)
    while True:
        try:
            call()
        except RetriableError:
            time.sleep(0.2)
        else:
            return


def main() -> int:
    """0 after the stop file, 1 after an error."""
    writer = Writer(sys.argv[1:])
    try:
        writer.run()
    except EosLogError as error:
        writer.notes.add("ended", error=type(error).__name__, text=str(error)[:400])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
