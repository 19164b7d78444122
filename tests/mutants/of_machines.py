"""Breaks of group commit across machines."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_GROUP, _IN_DOUBT = "spark_eos/log/commit/group.py", "spark_eos/log/commit/in_doubt.py"
_ANSWERS, _SLOTS = "spark_eos/log/commit/answers.py", "spark_eos/log/commit/slots.py"
_MACHINES = "spark_eos/storage/machines"

_OF_REACH = ("tests/log/test_group_commit_reach.py",)
_OF_MACHINES = ("tests/storage/test_machines.py", "-k", "not real and not go_on")
_OF_OBJECTS = ("tests/storage/test_request_objects.py",)
_OF_AHEAD = ("tests/log/test_read_ahead.py",)
_OF_FILES = ("tests/storage/test_group_channel.py",)

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
    # -- requests as objects ----------------------------------------------------------------------------
    Mutant(
        "objects-of-before-the-term",
        f"{_MACHINES}/objects.py",
        "        if before is None:\n            return {}\n",
        "        before = before or {}\n",
        "a new leader reads what was left behind by many that are gone",
        _OF_OBJECTS,
    ),
    Mutant(
        "each-object-again",
        f"{_MACHINES}/objects.py",
        "            if info.name not in before and info.size",
        "            if info.size",
        "a leader reads each object again at each look: one request each",
        _OF_OBJECTS,
    ),
    Mutant(
        "an-older-object-counts",
        f"{_MACHINES}/objects.py",
        "                newest[found[1]] = max(one, newest.get(found[1], one))\n",
        "                newest[found[1]] = one\n",
        "a machine whose delete is late is not heard: its newest submissions are left out",
        _OF_OBJECTS,
    ),
    Mutant(
        "any-object",
        f"{_MACHINES}/objects.py",
        " and info.size <= MAX_BODY_BYTES:\n",
        ":\n",
        "one object fills the leader's memory",
        _OF_OBJECTS,
    ),
    Mutant(
        "leftovers-for-ever",
        f"{_MACHINES}/objects.py",
        "            if now - since > LEFTOVER_S:\n",
        "            if False:\n",
        "objects of processes that died are listed for ever",
        _OF_OBJECTS,
    ),
    Mutant(
        "objects-without-the-right",
        f"{_MACHINES}/objects.py",
        "            if not self._writing.result():\n                return None\n",
        "",
        "a process that may not write objects waits for a leader that never has its requests",
        _OF_OBJECTS,
    ),
    Mutant(
        "cut-off-writers-compete",
        f"{_MACHINES}/channel.py",
        "            if beat >= 0 and self._objects is not None:\n",
        "            if False:\n",
        "a machine that cannot reach the leader competes with it for each slot",
        _OF_OBJECTS,
    ),
    Mutant(
        "objects-though-no-other-is-led",
        f"{_MACHINES}/channel.py",
        "            if beat >= 0 and self._objects is not None:\n",
        "            if self._objects is not None:\n",
        "a process that has seen one hint waits for a leader that may be gone",
        _OF_OBJECTS,
    ),
    Mutant(
        "objects-left-out-for-ever",
        f"{_MACHINES}/channel.py",
        "            if self._left_out > OBJECT_PATIENCE or",
        "            if",
        "a leader that reads no objects stops a machine",
        _OF_OBJECTS,
    ),
    Mutant(
        "objects-for-a-leader-that-is-gone",
        f"{_MACHINES}/channel.py",
        " or now - self._news_s > OBJECT_SILENT_S:",
        ":",
        "a machine waits for a leader that is gone",
        _OF_OBJECTS,
    ),
    Mutant(
        "objects-for-good",
        f"{_MACHINES}/channel.py",
        "        if self._is_by_objects:\n            self._look_again()\n",
        "",
        "a machine that could reach the leader by now goes on with objects",
        _OF_OBJECTS,
    ),
    Mutant(
        "looks-in-vain-at-once",
        f"{_MACHINES}/channel.py",
        "            if self._is_by_objects and self._now() < self._poll_s:\n                return None\n",
        "",
        "a machine without a way to the leader asks the store without a pause",
        _OF_OBJECTS,
    ),
    # -- entries are read ahead -------------------------------------------------------------------------
    Mutant(
        "read-ahead-of-long-ago",
        "spark_eos/log/commit/read_ahead.py",
        " if one >= seq and now - found[0] <= _BELIEVED_S\n",
        " if one >= seq\n",
        "a process takes over an entry that was retired meanwhile, or is of before a restore",
        _OF_AHEAD,
    ),
    Mutant(
        "read-ahead-in-vain",
        "spark_eos/log/commit/read_ahead.py",
        "            except ObjectNotFoundError:\n                self.forget()  # It may have come since.\n",
        "            except ZeroDivisionError:\n                pass\n",
        "an entry that came after it was read ahead counts as missing",
        _OF_AHEAD,
    ),
    Mutant(
        "read-ahead-one-by-one",
        "spark_eos/log/commit/read_ahead.py",
        "        if seq not in self._found and newest > seq:\n",
        "        if False:\n",
        "a process that is far behind reads as fast as one writer writes, and never gets to the end",
        _OF_AHEAD,
    ),
    Mutant(
        "missed-announcement-is-waited-for",
        "spark_eos/storage/group_channel.py",
        """        return b"" if self.newest() >= seq else None\n""",
        "        return None\n",
        "a process that was slow waits for an announcement that is gone",
        _OF_FILES,
    ),
    Mutant(
        "announced-in-vain-again-and-again",
        "spark_eos/storage/group_channel.py",
        "        self._in_vain = self._newest()\n",
        "        pass\n",
        "a process asks the store without end for an entry that is not there",
        _OF_FILES,
    ),
)
