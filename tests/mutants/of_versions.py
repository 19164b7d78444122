"""Breaks of what an older process does that meets an entry of a newer version."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_TAIL, _ANSWERS = "spark_eos/log/commit/tail.py", "spark_eos/log/commit/answers.py"
_IN_DOUBT, _GROUP = "spark_eos/log/commit/in_doubt.py", "spark_eos/log/commit/group.py"
_OF_NEWER = ("tests/log/test_newer_writer.py",)

MUTANTS = (
    Mutant(
        "before-the-release-is-newer",
        "spark_eos/protocol/encoding/frame.py",
        " in _BEFORE_RELEASE",
        " in ()",
        "a log from before the first release asks for an upgrade that there is not",
        ("tests/protocol/test_codec.py",),
    ),
    Mutant(
        "newer-entry-says-nothing-of-a-request",
        "spark_eos/log/commit/loop.py",
        "        elif isinstance(error, UnsupportedVersionError):\n",
        "        elif error is None:\n",
        "an older process does not know of a request that it never sent",
        _OF_NEWER,
    ),
    Mutant(
        "newer-entry-settles-nothing",
        _ANSWERS,
        "        if self._is_settled(ticket):\n            return\n        # This process",
        "        # This process",
        "a request that is in an entry before the newer one is not known to be",
        _OF_NEWER,
    ),
    Mutant(
        "newer-entry-anywhere",
        _ANSWERS,
        "        ends_at_newer = self._tail.ends_at_newer",
        "        ends_at_newer = True",
        "a request is said not to be in the log, though entries before the newer one were not read",
        _OF_NEWER,
    ),
    Mutant(
        "newer-leader-takes-nothing-in",
        _ANSWERS,
        "        if ends_at_newer and not self._in_doubt.may_come_after(self._tail.state, ticket.request_id):",
        "        if ends_at_newer:",
        "a request that a newer leader has taken in is said not to be in the log",
        _OF_NEWER,
    ),
    Mutant(
        "lost-request-cannot-come-later",
        _IN_DOUBT,
        "        return doubt.is_lost or (doubt.was_submitted and is_next)",
        "        return doubt.was_submitted and is_next",
        "a create without a reply is said not to be in the log",
        _OF_NEWER,
    ),
    Mutant(
        "submitted-request-cannot-come-later",
        _IN_DOUBT,
        "        return doubt.is_lost or (doubt.was_submitted and is_next)",
        "        return doubt.is_lost",
        "what was submitted to a newer leader is said not to be in the log",
        _OF_NEWER,
    ),
    Mutant(
        "newer-slot-remembered-for-ever",
        _TAIL,
        "            self._newer = -1\n            return None",
        "            return None",
        "an entry that is gone again still counts as the end",
        _OF_NEWER,
    ),
    Mutant(
        "newer-slot-after-an-absence",
        _TAIL,
        "            if not self._is_long_ago(self._as_of):  # Else another one may have been there before.\n"
        "                self._newer = seq",
        "            self._newer = seq",
        "a process that slept takes the newer entry in a slot for the only one that was ever there",
        _OF_NEWER,
    ),
    Mutant(
        "newer-announcement-ignored",
        _GROUP,
        "            except UnsupportedVersionError:\n",
        "            except ZeroDivisionError:\n",
        "an older process waits for a leader whose entries it cannot read",
        _OF_NEWER,
    ),
    Mutant(
        "newer-entry-asked-again-and-again",
        "spark_eos/clients/producer/sender.py",
        "        if isinstance(error, CommitOutcomeUnknownError) and error.is_final:",
        "        if False:",
        "an older producer repeats for two minutes what no call of its version finds out",
        _OF_NEWER,
    ),
    Mutant(
        "newer-entry-without-a-remedy",
        _ANSWERS,
        "        if isinstance(cause, UnsupportedVersionError):",
        "        if False:",
        "the error tells to repeat the call instead of to upgrade",
        _OF_NEWER,
    ),
    Mutant(
        "first-entry-taken-for-the-end",
        _TAIL,
        "                if self._skipped_ahead(reading) or (data is None and opening and self._has_become_a_log()):",
        "                if self._skipped_ahead(reading):",
        "a process that opens a copy while it is finished begins a second history after entry 0",
        ("tests/maintenance/test_copying.py", "-k", "sees_all_of_it"),
    ),
)
