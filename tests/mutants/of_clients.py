"""Breaks of producers and consumers."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_TRANSACTIONS, _SENDER = (
    "spark_eos/clients/producer/transaction_manager.py",
    "spark_eos/clients/producer/sender.py",
)
_ASSIGNED, _FETCHER = "spark_eos/clients/consumer/partition_state.py", "spark_eos/clients/consumer/fetcher.py"
_OFFSETS, _REBALANCE = (
    "spark_eos/clients/consumer/offset_manager.py",
    "spark_eos/clients/consumer/coordinator.py",
)
_CONSUMER = "spark_eos/clients/consumer/consumer.py"
_FUTURES = "spark_eos/clients/producer/futures.py"
_ACCUMULATOR, _LISTED = (
    "spark_eos/clients/producer/accumulator.py",
    "spark_eos/clients/producer/record_buffer.py",
)

_OF_PRODUCER = ("tests/clients/test_producer.py", "-k", "not processes")
_OF_FUTURES = ("tests/clients/test_send_futures.py",)
_OF_ORDER = ("tests/clients/test_send_order.py",)
_OF_CONSUMER = ("tests/clients/test_consumer.py",)
_OF_POSITIONS = ("tests/clients/test_reading_on.py",)
_OF_DOUBT = ("tests/clients/test_in_doubt.py",)
_OF_GROUPS = ("tests/clients/test_groups.py",)

_OF_CALLS = ("tests/clients/test_consumer_calls.py",)

MUTANTS = (
    # -- iteration, background commits, threads ------------------------------------------------------------
    Mutant(
        "iteration-commits-what-it-holds",
        "spark_eos/clients/consumer/partition_state.py",
        "return self.position if self.shown is None else self.shown",
        "return self.position",
        "a commit inside of an iteration covers records that were not handed out yet",
        _OF_CALLS,
    ),
    Mutant(
        "iteration-shows-what-was-sought-away",
        "spark_eos/clients/consumer/iteration.py",
        "if partition.seeks == seeks and self._assigned",
        "if self._assigned",
        "an iteration goes on with records that a seek has left behind",
        _OF_CALLS,
    ),
    Mutant(
        "poll-passes-over-an-iteration",
        _CONSUMER,
        "                self._ahead.give_back()\n",
        "",
        "a poll inside of an iteration passes over the records that wait in it",
        _OF_CALLS,
    ),
    Mutant(
        "late-commit-wins",
        _OFFSETS,
        "            self._background.wait()\n            self.call_back()\n",
        "            pass\n",
        "a commit in the background puts a group back behind a later one",
        _OF_CALLS,
    ),
    Mutant(
        "two-threads-are-welcome",
        "spark_eos/clients/one_thread.py",
        "if self._users.setdefault(_USER, me) != me:",
        "if False:",
        "two threads take records from one consumer at the same time",
        _OF_CALLS,
    ),
    Mutant(
        "interrupt-loses-an-iterated-record",
        _CONSUMER,
        "            self._ahead.undo()\n",
        "            pass\n",
        "an iteration that was interrupted passes over a record",
        _OF_CALLS,
    ),
    # -- transactions -----------------------------------------------------------------------------------
    Mutant(
        "commit-not-recognised-by-its-number",
        _TRANSACTIONS,
        "done = producer is not None and producer.stamp == after and producer.transaction is wanted",
        "done = producer is None",
        "a commit that landed and was forgotten is an error when it is repeated",
        _OF_PRODUCER,
    ),
    Mutant(
        "any-end-will-do",
        _TRANSACTIONS,
        "producer.stamp == after and producer.transaction is wanted",
        "producer.stamp == after and producer.transaction is not TransactionState.ONGOING",
        "a commit is told as made if somebody has aborted the transaction",
        _OF_DOUBT,
    ),
    Mutant(
        "flush-in-doubt-is-no",
        _TRANSACTIONS,
        "            if isinstance(error, CommitOutcomeUnknownError):\n                # It may",
        "            if error.fatal:\n                # It may",
        "a flush in doubt is repeated under another name, or its files are deleted",
        _OF_PRODUCER,
    ),
    Mutant(
        "files-of-a-flush-in-doubt",
        _TRANSACTIONS,
        "        self.pending.fail(error)\n        self.pending = Accumulator()",
        "        self.pending.fail(error)\n        self._drop()",
        "files that may be in the log are deleted",
        _OF_DOUBT,
    ),
    Mutant(
        "abort-says-nothing",
        _TRANSACTIONS,
        "            if not self._touched:\n                self._finish()",
        "            if not self._number < 0:\n                self._finish()",
        "an abort leaves the transaction open in the log",
        _OF_PRODUCER,
    ),
    Mutant(
        "number-of-an-empty-transaction",
        _TRANSACTIONS,
        "        self._number = self._last + 1\n",
        "        self._number += 1\n",
        "after an empty transaction no other one can begin",
        _OF_PRODUCER,
    ),
    Mutant(
        "abort-after-an-unknown-commit",
        _TRANSACTIONS,
        '"abort_transaction": (_S.IN_TRANSACTION, _S.PREPARED, _S.ABORTING',
        '"abort_transaction": (_S.IN_TRANSACTION, _S.PREPARED, _S.COMMITTING, _S.ABORTING',
        "a commit in doubt may be aborted, and its files are deleted",
        _OF_PRODUCER,
    ),
    Mutant(
        "offsets-of-a-zombie",
        _TRANSACTIONS,
        "            self._check_epoch(state)\n",
        "",
        "a producer that is fenced learns it only at its commit",
        _OF_PRODUCER,
    ),
    Mutant(
        "offsets-without-their-member",
        _TRANSACTIONS,
        "CommitOffsets(group, tuple(offsets.values()), self.stamp, self._members[group])",
        "CommitOffsets(group, tuple(offsets.values()), self.stamp)",
        "offsets go with a transaction in nobody's name (KIP-447)",
        ("tests/clients/test_producer_and_groups.py",),
    ),
    Mutant(
        "init-under-a-new-name",
        _TRANSACTIONS,
        "        if self.state is _S.UNINITIALIZED:",
        "        if self.state is not _S.READY:",
        "init_transactions in doubt, when repeated, takes another epoch",
        _OF_PRODUCER,
    ),
    # -- idempotent sends -------------------------------------------------------------------------------
    Mutant(
        "files-of-an-unknown-send",
        _SENDER,
        "refused = isinstance(error, EosLogError) and not isinstance(error, CommitOutcomeUnknownError)",
        "refused = isinstance(error, EosLogError)",
        "files of a send whose outcome is unknown are deleted",
        _OF_PRODUCER,
    ),
    Mutant(
        "numbers-in-doubt",
        _SENDER,
        "                self._identity = None\n            if refused",
        "                pass\n            if refused",
        "after an unknown send the next ones go on with its sequence numbers",
        _OF_PRODUCER,
    ),
    Mutant(
        "numbers-not-learnt",
        _SENDER,
        "        self._identity.learn(committed.state)\n",
        "",
        "the second send of a producer passes for a repetition of its first",
        _OF_PRODUCER,
    ),
    Mutant(
        "expired-id-kept",
        _SENDER,
        "                self._identity = None\n                committed",
        "                committed",
        "a producer whose id expired never sends again",
        ("tests/clients/test_producer_and_groups.py",),
    ),
    # -- futures ----------------------------------------------------------------------------------------
    Mutant(
        "callbacks-as-they-were-asked-for",
        _FUTURES,
        "sorted(self._asked, key=lambda entry: entry[0])",
        "self._asked",
        "callbacks come in another order than the records",
        _OF_FUTURES,
    ),
    Mutant(
        "a-second-end-counts",
        _FUTURES,
        "            if self._tell is not None:\n                return\n",
        "",
        "a record that failed is told as sent",
        _OF_FUTURES,
    ),
    # -- order ------------------------------------------------------------------------------------------
    Mutant(
        "a-table-overtakes-records",
        _ACCUMULATOR,
        'one future tells."""\n        self.hand_on()\n',
        'one future tells."""\n',
        "the rows of send_arrow come before records that were sent before them",
        _OF_ORDER,
    ),
    Mutant(
        "staged-again-backwards",
        _ACCUMULATOR,
        "for chunk in self._chunks:\n                assert",
        "for chunk in reversed(self._chunks):\n                assert",
        "records change places when their files are written again",
        _OF_ORDER,
    ),
    Mutant(
        "places-of-the-whole-request",
        _ACCUMULATOR,
        "            before = before + counts  #",
        "            before += counts  #",
        "a record is said to be where one of a later chunk is",
        _OF_ORDER,
    ),
    Mutant(
        "keys-move-up",
        _LISTED,
        "                keys.extend([None] * row)\n",
        "                keys.extend([None] * (row - 1))\n",
        "the first key goes to the record before it, if that is not the first one",
        _OF_ORDER,
    ),
    Mutant(
        "timestamp-of-the-call",
        _LISTED,
        "            times[row] = timestamp_ms\n",
        "            pass\n",
        "a record has the time of the call, not the one it was given",
        _OF_ORDER,
    ),
    Mutant(
        "headers-of-another-record",
        _LISTED,
        "self._headers[row] = ",
        "self._headers[row + 1] = ",
        "a record has the headers of the one before it",
        _OF_ORDER,
    ),
    Mutant(
        "two-batches-at-once",
        _SENDER,
        "        with self._turn:\n            while True",
        "        if True:\n            while True",
        "a flush overtakes a batch that is being repeated",
        _OF_ORDER,
    ),
    # -- reading ----------------------------------------------------------------------------------------
    Mutant(
        "position-past-the-stable-offset",
        _ASSIGNED,
        "            self._planned_end = end\n",
        "            self._planned_end = partition.end\n",
        "a consumer steps over records of a transaction that is open",
        _OF_POSITIONS,
    ),
    Mutant(
        "unread-rows-stepped-over",
        _ASSIGNED,
        "            self.position = records.offset(records.num_rows - 1) + 1",
        "            self.position, self._records = self._next, None",
        "a poll of a few records loses the rest of their batch",
        _OF_CONSUMER,
    ),
    Mutant(
        "hidden-rows-not-stepped-over",
        _ASSIGNED,
        "            self.position = max(self.position, self._planned_end)",
        "            self.position = max(self.position, 0)",
        "a position stays before control batches and aborted records",
        _OF_CONSUMER,
    ),
    Mutant(
        "consumer-of-another-incarnation",
        _ASSIGNED,
        "        if topic is None or topic.topic_id != self.topic.topic_id:",
        "        if topic is None:",
        "a consumer reads on in another topic of the same name",
        _OF_CONSUMER,
    ),
    Mutant(
        "seek-keeps-its-rows",
        _ASSIGNED,
        "        self._planned_end = -1\n        self._records = None\n\n    def check",
        "        self._planned_end = -1\n\n    def check",
        "after a seek the rows of the old place are returned",
        _OF_POSITIONS,
    ),
    Mutant(
        "seek-keeps-its-plan",
        _ASSIGNED,
        "        self.seeks += 1\n        self.planned.clear()\n",
        "        self.seeks += 1\n",
        "after a seek what was planned before is read on",
        _OF_POSITIONS,
    ),
    Mutant(
        "pending-offset-not-waited-for",
        _FETCHER,
        "            if self._offsets.is_pending(state, assigned.at):\n                return False",
        "            if self._offsets.is_pending(state, assigned.at):\n                pass",
        "a new holder reads again what an open transaction is about to commit (KIP-447)",
        (*_OF_GROUPS, "-k", "pending"),
    ),
    Mutant(
        "error-loses-rows",
        _FETCHER,
        "                    if found:\n                        return found\n",
        "",
        "an error loses the rows of the same poll that were taken before it",
        _OF_CONSUMER,
    ),
    Mutant(
        "no-turns",
        _FETCHER,
        "                self._assigned.move_to_end(at)\n",
        "",
        "a busy partition starves the others",
        _OF_CONSUMER,
    ),
    Mutant(
        "reset-to-nowhere",
        _FETCHER,
        "            if not self._offsets.resets:",
        "            if self._offsets.resets:",
        "a position that is out of range is reset where that was forbidden",
        _OF_CONSUMER,
    ),
    Mutant(
        "commits-what-it-returns",
        _CONSUMER,
        "                    found = gather(self._log.as_decided(state))\n",
        "                    found = gather(self._log.as_decided(state))\n"
        "                    self._offsets.auto_commit(now=bool(found))\n",
        "records are committed before anybody has seen them",
        (*_OF_CONSUMER, *_OF_GROUPS),
    ),
    Mutant(
        "damage-resets-offsets",
        _ASSIGNED,
        "            if self.planned and self.planned[0].file == fetch.file:\n                raise\n"
        "            return self._load(state, read)",
        "            raise OutOfRange from None",
        "a data file that is gone makes a consumer start over instead of failing",
        _OF_POSITIONS,
    ),
    # -- offsets of a consumer --------------------------------------------------------------------------
    Mutant(
        "committed-zero-is-nothing",
        _OFFSETS,
        "            if committed is not None:\n",
        "            if committed is not None and committed.offset:\n",
        "a group that committed offset 0 begins as if it had committed nothing",
        _OF_POSITIONS,
    ),
    Mutant(
        "commits-in-nobodys-name",
        _OFFSETS,
        "member = None if self.member is None else self.member.membership",
        "member = None",
        "members cannot commit, or anybody can",
        _OF_GROUPS,
    ),
    Mutant(
        "pending-for-the-uncommitted-only",
        _OFFSETS,
        "stable = self._isolation is Isolation.READ_COMMITTED and",
        "stable = self._isolation is Isolation.READ_UNCOMMITTED and",
        "readers of committed records do not wait for pending offsets",
        (*_OF_CONSUMER, "-k", "offsets"),
    ),
    Mutant(
        "old-commits-remembered",
        _OFFSETS,
        "        self._committed.pop(at, None)",
        "        pass",
        "a partition that comes back is not committed at the place it had before",
        _OF_GROUPS,
    ),
    # -- groups -----------------------------------------------------------------------------------------
    Mutant(
        "lost-partitions-read-on",
        _REBALANCE,
        "            self._lose([at for at in self._assigned if self._key(at) not in held])\n",
        "",
        "a member reads on what it does not hold any more",
        _OF_GROUPS,
    ),
    Mutant(
        "evicted-member-commits",
        _REBALANCE,
        "        self._lose(list(self._assigned))\n        self._member.check_not_fenced(state)",
        "        self._revoke(list(self._assigned))\n        self._member.check_not_fenced(state)",
        "a member that was put out tells its listener to commit what others have by now",
        _OF_GROUPS,
    ),
    Mutant(
        "synced-before-it-lets-go",
        _REBALANCE,
        "            self._revoke(self._going(group))\n",
        "",
        "a member says that it has let go and reads on",
        _OF_GROUPS,
    ),
    Mutant(
        "eager-and-cooperative-swapped",
        _REBALANCE,
        "        if group.assignor in EAGER:",
        "        if group.assignor not in EAGER:",
        "cooperative members stop for every rebalance, eager ones never",
        _OF_GROUPS,
    ),
    Mutant(
        "static-predecessor-goes-on",
        _REBALANCE,
        "        self._member.check_not_fenced(state)\n",
        "",
        "two consumers of one group.instance.id take the place from one another for ever",
        _OF_GROUPS,
    ),
    Mutant(
        "revoked-without-a-commit",
        _REBALANCE,
        "            self._offsets.auto_commit(now=True)\n",
        "",
        "what was read since the last commit is read again by the next holder, though auto-commit is on",
        _OF_GROUPS,
    ),
    Mutant(
        "older-state-after-a-newer-plan",
        "spark_eos/clients/consumer/partition_state.py",
        "            state = self._newer = self._log.follow()",
        "            state = self._log.follow()",
        "a consumer whose files were vacuumed while it polled begins again at the start",
        ("tests/maintenance/test_rolling.py", "-k", "files_go"),
    ),
)
