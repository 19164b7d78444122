"""Breaks of what a call that is interrupted (Ctrl-C) leaves behind."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_TRANSACTIONS, _PRODUCER = (
    "spark_eos/clients/producer/transaction_manager.py",
    "spark_eos/clients/producer/base.py",
)
_ACCUMULATOR = "spark_eos/clients/producer/accumulator.py"
_CONSUMER, _COMMIT = "spark_eos/clients/consumer/consumer.py", "spark_eos/log/commit/loop.py"
_SENDER = "spark_eos/clients/producer/sender.py"
_OF_INTERRUPTS = ("tests/clients/test_interrupts.py",)

MUTANTS = (
    Mutant(
        "a-dropped-signal-commits",
        "spark_eos/cli/console/produce.py",
        "            interrupts.check()\n            if is_transaction:\n",
        "            if is_transaction:\n",
        "a transaction is committed after Ctrl-C that came during an import",
        ("tests/cli/test_produce_in_doubt.py",),
    ),
    Mutant(
        "an-interrupted-poll-has-taken",
        _CONSUMER,
        "            self._fetcher.rewind()  # Ctrl-C",
        "            pass  # Ctrl-C",
        "an interrupted poll moves positions past records that it has not returned",
        _OF_INTERRUPTS,
    ),
    Mutant(
        "half-a-record-stays",
        "spark_eos/clients/producer/producer.py",
        "            entries += (key, value, ",
        "            entries.append(key)\n            entries += (value, ",
        "after an interrupted send a record has the key of another one",
        _OF_INTERRUPTS,
    ),
    Mutant(
        "half-handed-on",
        _ACCUMULATOR,
        "            if not self._has_taken(outcome):\n                self._tear()\n            raise",
        "            raise",
        "rows of an interrupted send are in the transaction twice",
        _OF_INTERRUPTS,
    ),
    Mutant(
        "files-of-an-interrupted-commit",
        _ACCUMULATOR,
        "        except BaseException:\n            self._tear()\n            raise\n        if self._broken",
        "        except BaseException:\n            self._writer = None\n            raise\n        if self._broken",
        "what an interrupted commit could not write is missing from the next one",
        _OF_INTERRUPTS,
    ),
    Mutant(
        "an-interrupted-abort-goes-on",
        _TRANSACTIONS,
        "            self.state = _S.ABORTABLE_ERROR\n            self.pending",
        "            self.pending",
        "a transaction commits whose files an interrupted abort has deleted",
        _OF_INTERRUPTS,
    ),
    Mutant(
        "taken-and-not-delivered",
        _PRODUCER,
        "            self._sender.taken, self._waiting.pending = self._waiting.pending, Accumulator()\n",
        "            waiting, self._waiting.pending = self._waiting.pending, Accumulator()\n"
        "            self._sender.taken = waiting\n",
        "records of an interrupted flush are neither sent nor refused",
        _OF_INTERRUPTS,
    ),
    Mutant(
        "refused-the-second-time",
        _TRANSACTIONS,
        "            if not earlier:\n                self.state = certainly_not\n",
        "            self.state = certainly_not\n",
        "a commit that was interrupted in the log is aborted, and its files are deleted",
        _OF_INTERRUPTS,
    ),
    Mutant(
        "files-of-the-first-try",
        _TRANSACTIONS,
        "            if earlier:\n                self._leave(error)\n",
        "",
        "a fenced producer deletes files that an interrupted commit has put into the log",
        _OF_INTERRUPTS,
    ),
    Mutant(
        "taken-along-by-the-next",
        _COMMIT,
        "                self._waiting = [other for other in self._waiting if other is not ticket]\n",
        "                pass\n",
        "a commit that was interrupted while it waited goes in with that of another thread, at any later time",
        _OF_INTERRUPTS,
    ),
    Mutant(
        "back-behind-a-seek",
        _CONSUMER,
        "sleep(min(self._idle.wait_s(), left_s))\n                    self._fetcher.start_poll()\n",
        "sleep(min(self._idle.wait_s(), left_s))\n",
        "an interrupted poll undoes a seek that came while it waited",
        _OF_INTERRUPTS,
    ),
    Mutant(
        "an-interrupted-flush-fails-its-records",
        _SENDER,
        "            except EosLogError as error:\n                request.error = error",
        "            except BaseException as error:\n                request.error = error",
        "an interrupt of a flush fails records that are in the log",
        _OF_INTERRUPTS,
    ),
    Mutant(
        "an-interrupted-flush-refused-the-second-time",
        _SENDER,
        "            if not earlier or isinstance(error, CommitOutcomeUnknownError):",
        "            if True:",
        "files of a flush that was interrupted in the log are deleted",
        _OF_INTERRUPTS,
    ),
    Mutant(
        "told-until-an-interrupt",
        "spark_eos/clients/producer/futures.py",
        "        while self._futures:\n            entry = self._futures[0]",
        "        while self._futures:\n            entry = self._futures.popleft()",
        "a future whose callback was interrupted keeps others waiting for ever",
        _OF_INTERRUPTS,
    ),
)
