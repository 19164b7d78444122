"""One run of several operating-system processes whose producers write to one log: `specs/Transactions.tla`.

Producers, log, store and group channel are those of production. What got into the log is read from it afterwards
(`client_trace`); what the rules refused, each process writes down for itself.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spark_eos import Consumer, OffsetAndMetadata, Producer, TopicPartition
from spark_eos.errors import EosLogError
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action
from spark_eos.protocol.state import State
from verification.specification.client_trace import GROUPS, NAMES, PARTITIONS, TOPIC, Refused, trace
from verification.specification.requests import Step

__all__ = ["run"]

_LONGEST_S = 60.0
_SHORT_MS, _LONG_MS = 30, 60_000
"""Timeouts of transactions."""


class _AskingLog(Log):
    """Writes down what the rules of the log refused, and the entry after which they did."""

    refused: Path

    def commit(self, propose: Callable[[State], Sequence[Action]], **options: Any) -> Any:
        """As `Log.commit`."""
        asked: list[Refused] = []

        def recorded(state: State) -> Sequence[Action]:
            asked.clear()
            actions = tuple(propose(state))
            asked.append(Refused(state.seq, actions))
            return actions

        try:
            return super().commit(recorded, **options)
        except EosLogError as error:
            # Whether it got in is not known, or nothing was asked of the rules.
            if asked and not error.retriable:
                with self.refused.open("ab") as file:
                    file.write(pickle.dumps(asked[0]))
            raise


def run(seed: int, folder: Path) -> list[Step]:
    """Let the processes of this seed write to a log in the folder, some of them die, and read what it says."""
    chance = random.Random(f"clients {seed}")
    url = folder / "log"
    Log.create(str(url)).ensure_topic(TOPIC, partitions=PARTITIONS)
    processes = [_started(seed, number, folder) for number in range(chance.choice([2, 3, 4]))]
    strikes = [(chance.uniform(0.02, 0.3), chance.choice(processes), chance.random() < 0.5) for _ in range(2)]
    stopped = []
    for pause_s, process, dies in strikes if chance.random() < 0.6 else ():
        time.sleep(pause_s)
        # A process that has ended is still there until it is waited for.
        os.kill(process, signal.SIGKILL if dies else signal.SIGSTOP)
        stopped.append(process)
    time.sleep(0.2 if stopped else 0.0)
    for process in stopped:
        os.kill(process, signal.SIGCONT)
    for process in processes:
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if code not in (0, -signal.SIGKILL):
            raise RuntimeError(f"seed {seed}: a client has ended with {code}")
    refused = [one for path in sorted(folder.glob("refused-*")) for one in _read(path)]
    return trace(lambda name: (url / name).read_bytes() if (url / name).exists() else None, refused)


def _read(path: Path) -> list[Refused]:
    found = []
    with path.open("rb") as file:
        while True:
            try:
                found.append(pickle.load(file))  # noqa: S301  (this run has written it)
            except (EOFError, pickle.UnpicklingError):  # Its process was killed while it wrote.
                return found


def _started(seed: int, number: int, folder: Path) -> int:
    if process := os.fork():
        return process
    code = 1
    try:
        signal.alarm(int(_LONGEST_S))
        _Client(seed, number, folder).lives()
        code = 0
    except BaseException:  # noqa: BLE001  (it is printed)
        traceback.print_exc()
    finally:
        os._exit(code)


class _LeftOpenError(EosLogError):
    """A program that goes on with another producer."""


class _Client:
    def __init__(self, seed: int, number: int, folder: Path) -> None:
        self._chance = random.Random(f"client {seed} {number}")
        self._number = number
        self._count = 0
        self._folder = folder
        self._log = _AskingLog.open(str(folder / "log"))
        assert isinstance(self._log, _AskingLog)
        self._log.refused = folder / f"refused-{number}"
        self._left: list[Producer] = []
        """Producers that were left as they were: newer ones fence them."""

    def lives(self) -> None:
        """Several producers, one after the other, of few transactional ids: they fence each other."""
        for _ in range(3):
            try:
                self._alone() if self._chance.random() < 0.2 else self._live()
            except EosLogError:
                continue  # A program would close the producer, and begin with a new one.

    def _live(self) -> None:
        chance, name = self._chance, self._chance.choice(NAMES)
        prepares = chance.random() < 0.4
        timeout_ms = _SHORT_MS if chance.random() < 0.4 else _LONG_MS
        settings = {"transactional.id": name, "transaction.two.phase.commit.enable": prepares}
        producer = Producer(
            self._log, settings if prepares else {**settings, "transaction.timeout.ms": timeout_ms}
        )
        self._left.append(producer)
        keeps = prepares and chance.random() < 0.7
        producer.init_transactions(keep_prepared_transaction=keeps)
        if keeps:
            decided = self._folder / f"decided-{name}"
            producer.complete_transaction(decided.read_text() if decided.exists() else None)
        for _ in range(chance.choice([1, 2, 3])):
            one = chance.choice(self._left) if chance.random() < 0.3 else producer
            self._transaction(one, name if prepares and one is producer else "")
            if chance.random() < 0.3:
                self._log.expire_overdue(everything=True)

    def _transaction(self, producer: Producer, prepared: str) -> None:
        """``prepared``: the transactional id, if it may be prepared."""
        chance = self._chance
        producer.begin_transaction()
        for _ in range(chance.choice([1, 1, 2])):
            for partition in chance.choice([(0,), (1,), (0, 1)]):
                producer.send(TOPIC, b"row", partition=partition)
            if chance.random() < 0.4:
                at = TopicPartition(TOPIC, 0)
                self._count += 1
                tag = OffsetAndMetadata(self._count, f"{self._number}-{self._count}")
                producer.send_offsets_to_transaction({at: tag}, chance.choice(GROUPS))
            producer.flush()
        if chance.random() < 0.3:
            time.sleep(2 * _SHORT_MS / 1000)
        how = chance.random()
        if prepared and how < 0.5:
            token = producer.prepare_transaction()
            if chance.random() < 0.5:
                (self._folder / f"decided-{prepared}").write_text(str(token))
                producer.complete_transaction(token)
        elif how < 0.15:
            raise _LeftOpenError("the transaction is left open")
        elif how < 0.2:
            os.kill(os.getpid(), signal.SIGKILL)
        elif how < 0.4:
            producer.abort_transaction()
        else:
            producer.commit_transaction()

    def _alone(self) -> None:
        """A position of no transaction."""
        with Consumer(self._log, {"group.id": self._chance.choice(GROUPS)}) as consumer:
            at = TopicPartition(TOPIC, 0)
            consumer.assign([at])
            self._count += 1
            consumer.commit({at: OffsetAndMetadata(self._count, f"{self._number}-{self._count}")})
