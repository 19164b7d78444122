"""Breaks of what a process does that does not read what others write."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_LAGGING, _OUTCOMES = "spark_eos/log/commit/lagging.py", "spark_eos/log/commit/outcomes.py"
_GROUP, _LOOP = "spark_eos/log/commit/group.py", "spark_eos/log/commit/loop.py"
_DIVERGENCE, _TAIL = "spark_eos/log/commit/divergence.py", "spark_eos/log/commit/tail.py"
_TESTS = ("tests/log/test_lagging.py", "tests/testing/test_crowds.py")

MUTANTS = (
    Mutant(
        "later-slot-is-taken-along",
        _GROUP,
        "            if slot > seq or self._is_too_late(slot, seq):",
        "            if self._is_too_late(slot, seq):",
        "a request is in an entry before the one in which leaders look for it",
        _TESTS,
    ),
    Mutant(
        "lagging-names-the-slot-it-has-read",
        _LAGGING,
        "        if not self._group.submit(draft.requests, self._newest):",
        "        if not self._group.submit(draft.requests):",
        "what a lagging process submits is older than what leaders remember",
        _TESTS,
    ),
    Mutant(
        "lagging-with-what-is-in-doubt",
        _LAGGING,
        "        if any(ticket.request_id in self._in_doubt for ticket in tickets) or not self._look():",
        "        if not self._look():",
        "a request that may be in the log is submitted as a new one",
        _TESTS,
    ),
    Mutant(
        "lagging-skips-what-is-in-doubt",
        _LAGGING,
        ">= self._lag.skips and not self._in_doubt.ids:",
        ">= self._lag.skips:",
        "a process goes on from a snapshot past entries that may hold its requests",
        _TESTS,
    ),
    Mutant(
        "lagging-without-end",
        _LAGGING,
        "        return self._newest - self._tail.state.seq < self._lag.skips * _TOO_FAR",
        "        return True",
        "a process lags for ever where no snapshots are written",
        _TESTS,
    ),
    Mutant(
        "lagging-forgets-its-own",
        _LAGGING,
        "        draft = EntryBuilder(state, self._tail.seen)",
        "        draft = EntryBuilder(base, self._tail.seen)",
        "a lagging process drafts without what it has written itself",
        _TESTS,
    ),
    Mutant(
        "lagging-keeps-an-old-draft",
        _LAGGING,
        "        if self._read == base.seq:\n            return self._drafted\n",
        "        if self._read >= 0:\n            return self._drafted\n",
        "a process that has read on drafts on the state of before",
        _TESTS,
    ),
    Mutant(
        "lagging-forgets-its-own-after-a-snapshot",
        _LAGGING,
        "        for _, request in self._own:\n",
        "        for _, request in ():\n",
        "a new batch gets the numbers of an old one, and counts as its repetition",
        _TESTS[:1],
    ),
    Mutant(
        "lagging-does-not-hesitate",
        _LAGGING,
        "            if self._clock.monotonic() - heard_s > hesitates_s and self._group.try_lead():",
        "            if self._group.try_lead():",
        "a process that lags takes the lead before those that do not",
        _TESTS,
    ),
    Mutant(
        "lagging-where-entries-hold-little",
        _LAGGING,
        " or mean_requests(self._told) < self._lag.requests:",
        ":",
        "two processes that take turns lag, and wait for each other",
        _TESTS[:1],
    ),
    Mutant(
        "lagging-waits-for-ever",
        _LAGGING,
        "            if newest >= submitted_at + _LEFT_OUT:\n                return False\n",
        "",
        "what no leader takes along is never looked into",
        _TESTS[:1],
    ),
    Mutant(
        "lagging-hands-over-what-is-alone",
        _LAGGING,
        "            if ticket.alone or draft.add(",
        "            if draft.add(",
        "what is to follow the state it saw is added to another one",
        _TESTS,
    ),
    Mutant(
        "lagging-hands-over-what-is-not-told",
        _LAGGING,
        "        if not are_reportable(action for request in draft.requests for action in request.actions):",
        "        if False:",
        "a process waits to be told results that cannot be told",
        _TESTS,
    ),
    Mutant(
        "maintenance-with-a-draft",
        "spark_eos/log/handle/writing.py",
        "        if self.does_maintenance and not committed.is_lagging:",
        "        if self.does_maintenance:",
        "a state that no entry led to is written as a snapshot",
        _TESTS,
    ),
    Mutant(
        "told-of-what-was-refused",
        _GROUP,
        "                after, outcome = apply(state, request)\n",
        "                after, outcome = apply(state, request)\n"
        "                results = getattr(outcome, 'results', ((), None))\n"
        "                told.append(Report(request.request_id, request.actions, results))\n",
        "a leader tells of requests that it leaves out",
        _TESTS,
    ),
    Mutant(
        "told-of-is-not-looked-for",
        _DIVERGENCE,
        "        if self._told is None:\n            return\n        name",
        "        if True:\n            return\n        name",
        "a process whose acknowledged entry is gone goes on",
        _TESTS,
    ),
    Mutant(
        "told-of-may-be-another",
        _DIVERGENCE,
        "            if not is_in_history(state, self._told):",
        "            if False:",
        "a process whose acknowledged entry is another one goes on",
        _TESTS,
    ),
    Mutant(
        "snapshot-instead-of-what-was-told",
        _TAIL,
        "        self._divergence.check_told(snapshot)\n",
        "",
        "a process goes on from a snapshot of a history without what it was told of",
        _TESTS,
    ),
    Mutant(
        "gone-though-it-is-there",
        _DIVERGENCE,
        "            self._store.size(paths.entry(self._told.seq, state.entries_per_folder))\n",
        "            raise ObjectNotFoundError(name)\n",
        "a log counts as put back because the store does not show an entry yet",
        _TESTS,
    ),
    Mutant(
        "outcomes-of-a-history-that-is-gone",
        _OUTCOMES,
        "if -1 < _number(line) < seq]",
        "if -1 < _number(line)]",
        "what is told of an entry stays when another one takes its place",
        _TESTS,
    ),
    Mutant(
        "long-reading-leader-gives-no-sign",
        _GROUP,
        "                self._channel.keep_lead()\n",
        "                pass\n",
        "a leader that has much to read counts as asleep",
        _TESTS,
    ),
    Mutant(
        "file-of-outcomes-by-its-number-alone",
        "spark_eos/storage/group_channel.py",
        "    return status.st_ino, status.st_mtime_ns, status.st_size",
        "    return status.st_ino, 0, 0",
        "where a number of a file is used again, what was told anew is not seen",
        ("tests/storage/test_group_channel.py",),
    ),
    Mutant(
        "old-outcomes-are-news",
        "spark_eos/storage/group_channel.py",
        "            if not self._is_fresh(status):\n                return None\n            if _file",
        "            if _file",
        "what was told before the folder was put back counts",
        ("tests/storage/test_group_channel.py",),
    ),
)
