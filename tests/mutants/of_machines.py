"""Breaks of group commit across machines."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_GROUP, _IN_DOUBT = "spark_eos/log/commit/group.py", "spark_eos/log/commit/in_doubt.py"
_ANSWERS, _SLOTS = "spark_eos/log/commit/answers.py", "spark_eos/log/commit/slots.py"
_MACHINES = "spark_eos/storage/machines"

_OF_REACH = ("tests/log/test_group_commit_reach.py",)
_OF_MACHINES = ("tests/storage/test_machines.py", "-k", "not real and not go_on")

MUTANTS = (
    # -- a submission ends by itself --------------------------------------------------------------------
    Mutant(
        "taken-along-too-late",
        _GROUP,
        "        return reach is not None and slot >= submitted + reach\n",
        "        return False\n",
        "a leader that slept takes along what its owner has called refused",
        _OF_REACH,
    ),
    Mutant(
        "withdrawal-over-a-network-is-certain",
        _IN_DOUBT,
        "                one.until = max(one.until, until)\n",
        "",
        "the answer is no, and a leader that never heard of the withdrawal commits it",
        _OF_REACH,
    ),
    Mutant(
        "one-slot-settles-all",
        _IN_DOUBT,
        "        return one is not None and one.was_submitted and max(one.slot, one.until) > state.seq\n",
        "        return one is not None and one.was_submitted and one.slot > state.seq\n",
        "the slots that a request may be in are not filled",
        _OF_REACH,
    ),
    Mutant(
        "lost-slot-ends-the-doubt",
        _IN_DOUBT,
        "        return one is not None and (one.is_submitted or one.until > state.seq)\n",
        "        return one is not None and one.is_submitted\n",
        "a request that may still come is not looked for any more",
        _OF_REACH,
    ),
    Mutant(
        "setting-meets-no-setting",
        "spark_eos/storage/objects/store.py",
        """local_group_channel(place, f"{name} machines")""",
        "local_group_channel(place, name)",
        "a process without the setting says no to what another one has handed over to another machine",
        _OF_MACHINES,
    ),
    # -- a leader is not believed -----------------------------------------------------------------------
    Mutant(
        "a-liar-is-durable",
        _SLOTS,
        "        if self._group.is_trusted:\n",
        "        if True:\n",
        "an entry counts as durable because another machine says so",
        _OF_REACH,
    ),
    Mutant(
        "a-liar-is-asked-again",
        _GROUP,
        "                    self._channel.distrust()\n",
        "",
        "a leader that names entries that are not there is waited for",
        _OF_REACH,
    ),
    Mutant(
        "left-out-for-ever",
        f"{_MACHINES}/channel.py",
        "        if self._left_out > PATIENCE or",
        "        if",
        "a leader that leaves out one process stops it",
        _OF_MACHINES,
    ),
    Mutant(
        "silent-for-ever",
        f"{_MACHINES}/channel.py",
        " or now - self._news_s > SILENT_S:",
        ":",
        "a leader that says that it leads, and does nothing, stops all",
        _OF_MACHINES,
    ),
    Mutant(
        "one-that-is-cut-off-leads",
        f"{_MACHINES}/channel.py",
        "        if hint is not None and self._may_be_alive(hint, now):\n",
        "        if False:\n",
        "a process that is cut off from the leader takes it from all others",
        _OF_MACHINES,
    ),
    Mutant(
        "two-leaders-for-good",
        f"{_MACHINES}/channel.py",
        "            if hint is not None and hint.leader != host.hint.leader:\n",
        "            if False:\n",
        "two processes lead, and race for each slot",
        _OF_MACHINES,
    ),
    Mutant(
        "the-winner-hears-nothing",
        f"{_MACHINES}/channel.py",
        "        return self._seen not in (None, before)\n",
        "        return False\n",
        "the quickest process wins every slot against the leader of all others",
        _OF_MACHINES,
    ),
    Mutant(
        "a-leader-that-sleeps-leads",
        f"{_MACHINES}/mailbox.py",
        "            return Answer(self._newest, self._now() - self._led_s <= LEADS_S)\n",
        "            return Answer(self._newest, True)\n",
        "a leader that has nothing to commit keeps the lead",
        _OF_MACHINES,
    ),
    # -- the network ------------------------------------------------------------------------------------
    Mutant(
        "any-token",
        f"{_MACHINES}/server.py",
        "        if not hmac.compare_digest(",
        "        if False and not hmac.compare_digest(",
        "a program without the token of the hint hands requests over",
        _OF_MACHINES,
    ),
    Mutant(
        "any-certificate",
        f"{_MACHINES}/client.py",
        "            verify=context,\n",
        "            verify=False,\n",
        "requests go to whatever listens at the address of a leader that is gone",
        _OF_MACHINES,
    ),
    Mutant(
        "any-body",
        f"{_MACHINES}/server.py",
        "            if len(body) > MAX_BODY_BYTES:\n",
        "            if False:\n",
        "one request fills the leader's memory",
        _OF_MACHINES,
    ),
)
