"""Breaks of transactions over several logs."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_ACTIONS = "spark_eos/protocol/actions"
_RULES, _PRODUCERS = f"{_ACTIONS}/two_phase/several_logs.py", f"{_ACTIONS}/producers.py"
_EXPIRY = f"{_ACTIONS}/expiry.py"
_OUTCOME, _FOLLOWING = "spark_eos/log/deciding/outcome.py", "spark_eos/log/deciding/following.py"
_MEMBER = "spark_eos/clients/producer/member.py"
_GROUP, _SETTLING = (
    "spark_eos/extensions/several_logs/producer.py",
    "spark_eos/extensions/several_logs/settling.py",
)
_PROTOCOL, _CLIENTS = (
    ("tests/protocol/test_several_logs.py",),
    ("tests/extensions/several_logs/test_several_logs.py",),
)
_CRASHES = (*_CLIENTS, "tests/crashpoints/test_several_logs.py")

MUTANTS = (
    Mutant(
        "follower-aborted-by-its-successor",
        _PRODUCERS,
        "        if not keeps_prepared:\n            refuse_follower(current)\n",
        "",
        "who takes over an id aborts what another log has committed",
        _PROTOCOL,
    ),
    Mutant(
        "follower-ended-without-its-decider",
        _PRODUCERS,
        "    refuse_follower(producer)\n    if producer.transaction",
        "    if producer.transaction",
        "a producer ends what another log decides",
        _PROTOCOL,
    ),
    Mutant(
        "decision-not-made-by-the-end",
        _PRODUCERS,
        "        decision = replace(decision, committed=commit)\n",
        "        pass\n",
        "a transaction ends and its followers never hear of it",
        _PROTOCOL,
    ),
    Mutant(
        "any-decider-counts",
        _RULES,
        "        or (prepared.epoch, prepared.decider) != (stamp.epoch, action.decider)\n",
        "        or prepared.epoch != stamp.epoch\n",
        "the decision of another transaction ends a prepared one",
        _PROTOCOL,
    ),
    Mutant(
        "late-decision-ends-the-next",
        _RULES,
        "        or (prepared.epoch, prepared.decider) != (stamp.epoch, action.decider)\n",
        "        or prepared.decider != action.decider\n",
        "an end that was delayed is taken for that of another prepared transaction",
        _PROTOCOL,
    ),
    Mutant(
        "followed-both-ways",
        _RULES,
        "    if prepared.committed is not action.commit:",
        "    if False:",
        "a follower says yes to both decisions",
        _PROTOCOL,
    ),
    Mutant(
        "decision-forgotten-for-the-next",
        _RULES,
        "    if last is not None and last.waiting:\n",
        "    if False:\n",
        "a decision is replaced by the next one while a follower still needs it",
        _PROTOCOL,
    ),
    Mutant(
        "log-follows-itself",
        _RULES,
        " or state.log_id in logs:",
        ":",
        "a log waits for its own decision",
        _PROTOCOL,
    ),
    Mutant(
        "noted-before-the-decision",
        _RULES,
        "    if decision.committed is None:\n        raise InvalidTxnStateError(\n"
        '            f"transaction {stamp.number} of '
        "transactional.id {producer.transactional_id!r} is not decided",
        "    if False:\n        raise InvalidTxnStateError(\n"
        '            f"transaction {stamp.number} of '
        "transactional.id {producer.transactional_id!r} is not decided",
        "a follower is forgotten before it could follow",
        _PROTOCOL,
    ),
    Mutant(
        "late-note-counts-for-the-next",
        _RULES,
        "    key = (stamp.epoch, stamp.number, action.history)\n",
        "    key = (known.epoch, known.number, known.history) if known else ()\n",
        "a note of an earlier decision makes the next one forgotten",
        _PROTOCOL,
    ),
    Mutant(
        "awaited-id-expires",
        _EXPIRY,
        "        if producer.is_awaited:\n",
        "        if False:\n",
        "a decision is forgotten with its id, and followers wait for ever",
        _PROTOCOL,
    ),
    Mutant(
        "awaited-id-proposed-to-expire",
        _EXPIRY,
        "            and not producer.is_awaited\n",
        "",
        "the expiry of an awaited id is asked for, which stops that of others",
        _PROTOCOL,
    ),
    Mutant(
        "decider-prepared",
        f"{_ACTIONS}/two_phase/prepare.py",
        "    if producer.decision is not None and producer.decision.committed is None:\n",
        "    if False:\n",
        "what decides for other logs waits itself, without a timeout",
        _PROTOCOL,
    ),
    Mutant(
        "history-of-the-decider-ignored",
        _OUTCOME,
        "(decision.epoch, decision.number, decision.history) != named_by_decider",
        "(decision.epoch, decision.number) != named_by_decider[:2]",
        "a deciding log that was put back decides once more, with the same numbers",
        _CLIENTS,
    ),
    Mutant(
        "unknown-means-abort",
        _FOLLOWING,
        "        except (EosLogError, OSError) as error:\n            self._rest_until",
        "        except DivergedLogError:\n            follow(self._commit, producer, decider, commit=False)\n"
        "            return True\n        except (EosLogError, OSError) as error:\n            self._rest_until",
        "a log that was put back aborts what had been committed",
        _CLIENTS,
    ),
    Mutant(
        "another-log-decides",
        _OUTCOME,
        "    if state.log_id != decider.log_id:\n",
        "    if False:\n",
        "whatever log is in the place of the deciding one is asked",
        _CLIENTS,
    ),
    Mutant(
        "undecided-means-abort",
        _FOLLOWING,
        "        if decision.committed is None:\n            self._wait(",
        "        if decision.committed is None:\n            decision = decision._replace(committed=False)\n"
        "        if False:\n            self._wait(",
        "a reader aborts what its coordinator is about to commit",
        _CLIENTS,
    ),
    Mutant(
        "decider-never-times-out",
        _FOLLOWING,
        "                log.expire_overdue()\n",
        "",
        "a coordinator that is dead blocks the readers of its followers",
        _CLIENTS,
    ),
    Mutant(
        "view-shows-aborted",
        _OUTCOME,
        "partition.aborted if commit else partition.aborted.set(mark, True)",
        "partition.aborted",
        "a reader without the right to write sees what was aborted",
        _CLIENTS,
    ),
    Mutant(
        "decided-before-all-are-prepared",
        _GROUP,
        "        for member in self._active:\n            if member.state is not ClientState.PREPARED:\n",
        "        for member in self._active[1:]:\n            if member.state is not ClientState.PREPARED:\n",
        "the deciding log commits, and a follower has nothing prepared",
        _CLIENTS,
    ),
    Mutant(
        "slow-prepare-not-fenced",
        _SETTLING,
        "    elif not commit:\n",
        "    elif False:\n",
        "a coordinator that was taken for dead prepares what can never be decided any more",
        _CRASHES,
    ),
    Mutant(
        "id-of-a-follower-not-asked-for-again",
        _MEMBER,
        "            if producer is None or producer.follows is None:\n                raise\n",
        "            raise\n",
        "a producer whose log has read too little ends instead of asking the deciding log",
        _CLIENTS,
    ),
    Mutant(
        "table-waits-without-the-right-to-write",
        "spark_eos/clients/table_plan.py",
        "handle.as_decided(handle.end_overdue())",
        "handle.end_overdue()",
        "a table is read without what is decided, where this process may not write",
        _CLIENTS,
    ),
    Mutant(
        "members-commit-alone",
        _MEMBER,
        "        if self.group and not self._led and ends:\n",
        "        if False:\n",
        "the deciding log commits without the others",
        _CLIENTS,
    ),
    Mutant(
        "same-log-twice",
        _GROUP,
        "                if log.log_id in logs_by_id:\n",
        "                if False:\n",
        "a log and its copy follow one another",
        _CLIENTS,
    ),
)
