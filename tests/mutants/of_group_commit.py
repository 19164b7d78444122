"""Breaks of what processes do for each other that write to the same log."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_COMMIT, _GROUP = "spark_eos/log/commit/loop.py", "spark_eos/log/commit/group.py"
_IN_DOUBT, _TAIL = "spark_eos/log/commit/in_doubt.py", "spark_eos/log/commit/tail.py"
_GROUP_CHANNEL = "spark_eos/storage/group_channel.py"

_OF_GROUP = ("tests/log/test_group_commit.py",)
_OF_GROUP_CHANNEL = ("tests/storage/test_group_channel.py",)

MUTANTS = (
    # -- once, and no more ------------------------------------------------------------------------------
    Mutant(
        "taken-along-again",
        _GROUP,
        "if request.request_id in seen:",
        "if False:",
        "a request that is in the log is taken along once more",
        _OF_GROUP,
    ),
    Mutant(
        "taken-along-by-who-forgot",
        _TAIL,
        "            if seq <= self._state.seq and (not self._recent or self._recent[0][0] > seq):\n"
        "                return None\n",
        "",
        "who does not know what is in the entries since takes along what is in one of them",
        _OF_GROUP,
    ),
    Mutant(
        "own-entries-are-not-remembered",
        _TAIL,
        "                self._take(state, entry, created=True)",
        "                self._state = state",
        "who has taken a request along takes it along again",
        _OF_GROUP,
    ),
    Mutant(
        "never-alone-again",
        _GROUP,
        "if self._quiet >= QUIET_ENTRIES:",
        "if False:",
        "one visitor, and the quickest writer pays for a group that is not there",
        _OF_GROUP,
    ),
    Mutant(
        "alone-while-others-wait",
        _GROUP,
        "                self.note_contention()\n                if any(",
        "                if any(",
        "a leader goes while others wait for it with what it could not take along",
        _OF_GROUP,
    ),
    # -- whoever asks knows -----------------------------------------------------------------------------
    Mutant(
        "no-while-it-is-handed-over",
        "spark_eos/log/commit/loop.py",
        "        if any(map(self._in_doubt.is_submitted, refused)):\n",
        "        if False:\n",
        "the answer is no while others can still find the request",
        _OF_GROUP,
    ),
    Mutant(
        "no-while-a-leader-has-it",
        _COMMIT,
        "        if not any(self._in_doubt.is_settled_by_filling(one, state) for one in refused):\n",
        "        if True:\n",
        "the answer is unknown though filling a slot would tell",
        _OF_GROUP,
    ),
    Mutant(
        "no-behind-the-wrong-slot",
        "spark_eos/log/commit/in_doubt.py",
        "one.is_submitted, one.slot = False, _NEXT_FREE",
        "one.is_submitted = False",
        "whoever leads may have found a request just before it was taken back, and the answer is no",
        _OF_GROUP,
    ),
    Mutant(
        "taken-slot-settles-what-is-handed-over",
        "spark_eos/log/commit/answers.py",
        "            if certain and not self._in_doubt.may_be_taken_along(one, self._tail.state):\n",
        "            if certain:\n",
        "a request that others can find is not looked for any more",
        _OF_GROUP,
    ),
    Mutant(
        "not-taken-back-is-no",
        "spark_eos/log/commit/in_doubt.py",
        "        if one.is_submitted:\n            return Fate.UNKNOWN\n",
        "",
        "the answer is no though the request could not be taken back",
        _OF_GROUP,
    ),
    Mutant(
        "only-the-newest-variant",
        "spark_eos/log/commit/in_doubt.py",
        "one.variants = (*one.variants, request.actions)",
        "one.variants = (request.actions,)",
        "of a request that was sent in two forms only the last one is looked for",
        _OF_GROUP,
    ),
    # -- nobody is harmed -------------------------------------------------------------------------------
    Mutant(
        "a-sleeping-leader-is-waited-for",
        _GROUP,
        "        elif now - self._heard_s > LEADER_TIMEOUT_S:\n",
        "        elif False:\n",
        "a leader that sleeps stops everybody",
        _OF_GROUP,
    ),
    Mutant(
        "a-sleeping-leader-is-waited-for-each-time",
        _GROUP,
        "        return leads or self._goes_without\n",
        "        return leads or now - self._heard_s > LEADER_TIMEOUT_S\n",
        "a leader that sleeps costs every commit a second",
        _OF_GROUP,
    ),
    Mutant(
        "gone-without-for-good",
        _GROUP,
        "            self._goes_without = False\n        elif",
        "        elif",
        "who has lost patience once writes against all others for ever",
        _OF_GROUP,
    ),
    Mutant(
        "old-signs-of-life",
        _GROUP,
        "if leads or led not in (0, self._led):",
        "if leads or led:",
        "a leader that sleeps is waited for as long as it was awake a moment ago",
        _OF_GROUP,
    ),
    Mutant(
        "losing-leaders-are-not-heard",
        _GROUP,
        "if leads or led not in (0, self._led):",
        "if leads:",
        "everybody writes for himself because whoever leads was beaten for a second",
        _OF_GROUP,
    ),
    Mutant(
        "winners-hear-nobody",
        _GROUP,
        "        if self._channel.leader_token():\n",
        "        if False:\n",
        "who wins every slot lets all others lose for ever",
        _OF_GROUP,
    ),
    Mutant(
        "a-lead-of-long-ago",
        _GROUP_CHANNEL,
        "return led_ns if of_late and led_ns",
        "return led_ns if led_ns",
        "who is alone meets those who were there yesterday",
        _OF_GROUP_CHANNEL,
    ),
    Mutant(
        "hears-itself",
        _GROUP_CHANNEL,
        "of_late and led_ns != self._led_ns else 0",
        "of_late else 0",
        "who has led goes on writing alone for ever",
        _OF_GROUP_CHANNEL,
    ),
    Mutant(
        "leads-unheard",
        _GROUP_CHANNEL,
        "                os.utime(self._lock)\n",
        "",
        "nobody hears that somebody leads",
        _OF_GROUP_CHANNEL,
    ),
    Mutant(
        "damaged-announcement",
        _GROUP,
        "            except EosLogError:\n                break  # The store",
        "            except ZeroDivisionError:\n                break  # The store",
        "an announcement that is half written fails a commit",
        _OF_GROUP,
    ),
    Mutant(
        "nothing-is-announced",
        "spark_eos/log/commit/loop.py",
        "            self._group.publish(state, data, draft.collected, len(draft.tickets))\n",
        "",
        "nobody hears that his request is in before somebody else leads",
        _OF_GROUP,
    ),
    Mutant(
        "group-commit-all-the-time",
        "spark_eos/log/commit/group.py",
        "self._contended_s <= CONTENTION_WINDOW_S",
        "self._contended_s >= 0",
        "who is alone pays for the group channel",
        _OF_GROUP,
    ),
    Mutant(
        "read-to-the-end",
        "spark_eos/log/commit/slots.py",
        "        while self._group.is_contended:\n",
        "        while False:\n",
        "who is beaten reads behind the others for ever, where a read takes as long as a create",
        _OF_GROUP,
    ),
    Mutant(
        "old-announcements",
        _GROUP_CHANNEL,
        'data = file.read() if self._is_fresh(os.fstat(file.fileno())) else b""',
        "data = file.read()",
        "an announcement from before the log was put back from a copy is believed",
        _OF_GROUP_CHANNEL,
    ),
    Mutant(
        "requests-of-the-dead",
        _GROUP_CHANNEL,
        "            if not self._is_fresh(status):\n",
        "            if False:\n",
        "what a process has handed over that died an hour ago is committed",
        _OF_GROUP_CHANNEL,
    ),
    Mutant(
        "a-child-leads-with-its-parent",
        _GROUP_CHANNEL,
        "        self._is_open = self._leads = False\n",
        "        self._is_open = self._leads = getattr(self, '_leads', False)\n",
        "a forked process believes that it leads because its parent does",
        _OF_GROUP_CHANNEL,
    ),
    Mutant(
        "torn-message-counts",
        _GROUP_CHANNEL,
        'data if head == _head(data) else b""',
        "data",
        "what is read of a file while it is written is taken for what another process says",
        _OF_GROUP_CHANNEL,
    ),
    Mutant(
        "a-child-removes-its-parents-submission",
        _GROUP_CHANNEL,
        "        self._removal.detach()\n",
        "",
        "a child that ends takes away what its parent has submitted",
        _OF_GROUP_CHANNEL,
    ),
)
