"""Breaks of what processes do for each other that write to the same log."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_COMMIT, _COMPANY = "spark_eos/log/commit/loop.py", "spark_eos/log/commit/group.py"
_DOUBTS, _TAIL = "spark_eos/log/commit/in_doubt.py", "spark_eos/log/commit/tail.py"
_MEETING = "spark_eos/storage/group_channel.py"

_OF_COMPANY = ("tests/log/test_company.py",)
_OF_MEETING = ("tests/storage/test_meeting.py",)

MUTANTS = (
    # -- once, and no more ------------------------------------------------------------------------------
    Mutant(
        "taken-along-again",
        _COMPANY,
        "if request.request_id in seen or any(",
        "if any(",
        "a request that is in the log is taken along once more",
        _OF_COMPANY,
    ),
    Mutant(
        "taken-along-by-who-forgot",
        _TAIL,
        "            if seq <= self._state.seq and (not self._recent or self._recent[0][0] > seq):\n"
        "                return None\n",
        "",
        "who does not know what is in the entries since takes along what is in one of them",
        _OF_COMPANY,
    ),
    Mutant(
        "own-entries-are-not-remembered",
        _TAIL,
        "                self._take(state, entry, created=True)",
        "                self._state = state",
        "who has taken a request along takes it along again",
        _OF_COMPANY,
    ),
    # -- whoever asks knows -----------------------------------------------------------------------------
    Mutant(
        "no-while-it-is-handed-over",
        _COMMIT,
        "        if any(map(self._group.is_submitted, refused)):\n",
        "        if False:\n",
        "the answer is no while others can still find the request",
        _OF_COMPANY,
    ),
    Mutant(
        "no-while-a-leader-has-it",
        _COMMIT,
        "        if not any(self._in_doubt.is_settled_by_filling(one, state) for one in refused):\n",
        "        if True:\n",
        "the answer is unknown though filling a slot would tell",
        _OF_COMPANY,
    ),
    Mutant(
        "no-behind-the-wrong-slot",
        _DOUBTS,
        "self._sent[one] = sent._replace(slot=_UNSEEN, was_handed_over=True)",
        "self._sent[one] = sent._replace(was_handed_over=True)",
        "whoever leads may have found a request just before it was taken back, and the answer is no",
        _OF_COMPANY,
    ),
    Mutant(
        "taken-slot-settles-what-is-handed-over",
        _COMMIT,
        "            if certain and not self._group.is_submitted(ticket.request_id):\n",
        "            if certain:\n",
        "a request that others can find is not looked for any more",
        _OF_COMPANY,
    ),
    Mutant(
        "not-taken-back-is-no",
        _COMMIT,
        "        if self._group.is_submitted(ticket.request_id):\n            earlier = Fate.UNKNOWN\n",
        "",
        "the answer is no though the request could not be taken back",
        _OF_COMPANY,
    ),
    Mutant(
        "only-the-newest-variant",
        _DOUBTS,
        "variants=(*before.variants, request.actions)",
        "variants=(request.actions,)",
        "of a request that was sent in two forms only the last one is looked for",
        _OF_COMPANY,
    ),
    # -- nobody is harmed -------------------------------------------------------------------------------
    Mutant(
        "a-sleeping-leader-is-waited-for",
        _COMPANY,
        "        elif now - self._heard_s > LEADER_TIMEOUT_S:\n",
        "        elif False:\n",
        "a leader that sleeps stops everybody",
        _OF_COMPANY,
    ),
    Mutant(
        "a-sleeping-leader-is-waited-for-each-time",
        _COMPANY,
        "        return leads or self._goes_without\n",
        "        return leads or now - self._heard_s > LEADER_TIMEOUT_S\n",
        "a leader that sleeps costs every commit a second",
        _OF_COMPANY,
    ),
    Mutant(
        "gone-without-for-good",
        _COMPANY,
        "            self._goes_without = False\n        elif",
        "        elif",
        "who has lost patience once writes against all others for ever",
        _OF_COMPANY,
    ),
    Mutant(
        "old-signs-of-life",
        _COMPANY,
        "if leads or led not in (0, self._led):",
        "if leads or led:",
        "a leader that sleeps is waited for as long as it was awake a moment ago",
        _OF_COMPANY,
    ),
    Mutant(
        "losing-leaders-are-not-heard",
        _COMPANY,
        "if leads or led not in (0, self._led):",
        "if leads:",
        "everybody writes for himself because whoever leads was beaten for a second",
        _OF_COMPANY,
    ),
    Mutant(
        "winners-hear-nobody",
        _COMPANY,
        "        if self._channel.leader_token():\n",
        "        if False:\n",
        "who wins every slot lets all others lose for ever",
        _OF_COMPANY,
    ),
    Mutant(
        "a-lead-of-long-ago",
        _MEETING,
        "return led_ns if of_late and led_ns",
        "return led_ns if led_ns",
        "who is alone meets those who were there yesterday",
        _OF_MEETING,
    ),
    Mutant(
        "hears-itself",
        _MEETING,
        "of_late and led_ns != self._led_ns else 0",
        "of_late else 0",
        "who has led goes on meeting nobody for ever",
        _OF_MEETING,
    ),
    Mutant(
        "leads-unheard",
        _MEETING,
        "            os.utime(self._lock)\n",
        "",
        "nobody hears that somebody leads",
        _OF_MEETING,
    ),
    Mutant(
        "damaged-announcement",
        _COMPANY,
        "            except EosLogError:\n                break  # The store",
        "            except ZeroDivisionError:\n                break  # The store",
        "an announcement that is half written fails a commit",
        _OF_COMPANY,
    ),
    Mutant(
        "nothing-is-announced",
        _COMMIT,
        "                    self._group.publish(entry.seq, data)\n",
        "",
        "nobody hears that his request is in before somebody else leads",
        _OF_COMPANY,
    ),
    Mutant(
        "company-all-the-time",
        _COMPANY,
        "self._crowded_s <= CONTENTION_WINDOW_S",
        "self._crowded_s >= 0",
        "who is alone pays for meeting nobody",
        _OF_COMPANY,
    ),
    Mutant(
        "read-to-the-end",
        _COMMIT,
        "        while self._group.is_contended:\n",
        "        while False:\n",
        "who is beaten reads behind the others for ever, where a read takes as long as a create",
        _OF_COMPANY,
    ),
    Mutant(
        "old-announcements",
        _MEETING,
        'data = file.read() if self._is_fresh(status) else b""',
        "data = file.read()",
        "an announcement from before the log was put back from a copy is believed",
        _OF_MEETING,
    ),
    Mutant(
        "requests-of-the-dead",
        _MEETING,
        "                        if self._is_fresh(entry.stat()):\n",
        "                        if True:\n",
        "what a process has handed over that died an hour ago is committed",
        _OF_MEETING,
    ),
    Mutant(
        "a-child-leads-with-its-parent",
        _MEETING,
        "self._own, self._leads, self._is_open = ",
        "_own, _leads, _is_open = ",
        "a forked process believes that it leads because its parent does",
        _OF_MEETING,
    ),
)
