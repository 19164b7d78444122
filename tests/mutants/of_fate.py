"""Breaks of what a process does that meets a retired entry, and of how it tells whether its own was in it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_FATE = "spark_eos/protocol/rules/fate.py"
_ACTIONS = "spark_eos/protocol/actions"
_APPENDS, _PRODUCERS, _TOPICS = f"{_ACTIONS}/appends.py", f"{_ACTIONS}/producers.py", f"{_ACTIONS}/topics.py"
_MICROBATCH = f"{_ACTIONS}/queries/microbatch.py"
_TAIL, _COMMIT = "spark_eos/log/commit/tail.py", "spark_eos/log/commit/loop.py"

_OF_FATE = ("tests/log/test_fate.py",)
_OF_DOUBT = ("tests/clients/test_in_doubt.py",)
_OF_SNAPSHOTS = ("tests/log/test_snapshots.py",)

MUTANTS = (
    # -- retired entries --------------------------------------------------------------------------------
    Mutant(
        "retired-is-free",
        _TAIL,
        "            return ()\n",
        "            return None\n",
        "a slot that was retired counts as free: whoever slept never gets on",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "lost-is-not-in",
        "spark_eos/log/commit/tail.py",
        "        self._in_doubt.record_skip()\n",
        "",
        "what was in a retired entry, unread, is committed again",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "busy-store-makes-no-of-what-is-lost",
        "spark_eos/log/commit/answers.py",
        "            if self._in_doubt.is_unanswered(request_id) or self._in_doubt.is_lost(request_id):\n",
        "            if self._in_doubt.is_unanswered(request_id):\n",
        "what is in a retired entry, unread, is answered with no when the store goes away",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "own-retired-slot-is-anothers",
        "spark_eos/log/commit/answers.py",
        "            certain = not self._in_doubt.is_unanswered(request_id) or not"
        " self._in_doubt.is_lost(request_id)\n",
        "            certain = True\n",
        "a slot that was taken, and retired since, is always another's",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "store-knows-its-tries-of-old",
        "spark_eos/log/commit/in_doubt.py",
        "doubt.is_unanswered = doubt.is_submitted or doubt.slot == slot",
        "doubt.is_unanswered = doubt.is_submitted",
        "a slot that a store says is another's is not looked at for what an earlier call sent there",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "no-to-what-is-in",
        "spark_eos/log/commit/in_doubt.py",
        "fate = doubt.told_by(state) if doubt.is_lost else Fate.NOT_APPLIED",
        "fate = Fate.NOT_APPLIED",
        "a request whose entry was retired is answered with no, though it is in the log",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "no-to-what-was-lost-and-sent-again",
        "spark_eos/log/commit/in_doubt.py",
        "if fate is Fate.NOT_APPLIED and doubt.may_come(state) else fate",
        "if fate is Fate.NOT_APPLIED and doubt.may_come(state) and not doubt.is_lost else fate",
        "a request that was retired unread and is on its way again is answered with no",
        _OF_FATE,
    ),
    # -- evidence ---------------------------------------------------------------------------------------
    Mutant(
        "everything-is-repeatable",
        _APPENDS,
        "    is_repeatable=lambda action: action.producer != NO_PRODUCER,",
        "    is_repeatable=lambda action: True,",
        "rows without a producer are appended again after a doubt that nothing can settle",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "later-transaction-tells",
        _PRODUCERS,
        "    if producer is None or producer.number > stamp.number:\n        return Fate.UNKNOWN\n",
        "    if producer is None:\n        return Fate.UNKNOWN\n",
        "a transaction in doubt is told by the fate of a later one",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "number-not-reached-is-unknown",
        _PRODUCERS,
        "    if producer.number < stamp.number:\n        return Fate.NOT_APPLIED",
        "    if producer.number < stamp.number:\n        return Fate.UNKNOWN",
        "a transaction that nobody has begun yet stays in doubt for ever",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "epoch-of-an-end-not-compared",
        _PRODUCERS,
        "    if producer.epoch != stamp.epoch:\n        return Fate.UNKNOWN  # A successor",
        "    if False:\n        return Fate.UNKNOWN  # A successor",
        "a transaction in doubt is told by that of a successor, which has the same number",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "epoch-of-rows-not-compared",
        _APPENDS,
        "    if producer is None or producer.epoch != stamp.epoch:",
        "    if producer is None:",
        "rows in doubt are told by those of a successor, which have the same sequence",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "open-is-committed",
        _PRODUCERS,
        "    if producer.is_open:\n        return Fate.NOT_APPLIED\n",
        "    if producer.is_open:\n        return Fate.APPLIED\n",
        "a transaction that is still open is told as committed",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "aborted-is-committed",
        _PRODUCERS,
        "        return Fate.APPLIED\n    return Fate.NOT_APPLIED\n",
        "        return Fate.APPLIED\n    return Fate.APPLIED\n",
        "a transaction that was aborted is told as committed",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "epoch-tells-a-run",
        _PRODUCERS,
        "    has_run = action.run_id is not None and action.run_id in producer.runs",
        "    has_run = True",
        "a producer takes an epoch for its own that another has taken",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "only-the-newest-run-is-in",
        _PRODUCERS,
        "has_run = action.run_id is not None and action.run_id in producer.runs",
        "has_run = action.run_id is not None and action.run_id == producer.run_id",
        "a run that was in, and has a successor, is told that nobody knows",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "run-not-asked-for-first",
        _FATE,
        "declared.fate is not None and declared.fate_decides:",
        "False:",
        "who takes over an id takes what another did with it for its own",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "epoch-not-reached-is-unknown",
        _PRODUCERS,
        "    if producer.epoch < action.epoch:\n        return Fate.NOT_APPLIED",
        "    if producer.epoch < action.epoch:\n        return Fate.UNKNOWN",
        "an epoch that nobody has taken yet stays in doubt for ever",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "batch-of-another-run",
        _MICROBATCH,
        "    ours = _is_current(state.producer_of(action.transactional_id), action.run_id)",
        "    ours = True",
        "a run takes the micro-batch for its own that another run has committed",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "batch-of-another-query",
        _MICROBATCH,
        "    if query is None or query.query_id != action.query_id:",
        "    if query is None:",
        "a micro-batch is told by the number of another query's",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "batch-not-reached-is-unknown",
        _MICROBATCH,
        "    if query.batch_id < action.batch_id:\n        return Fate.NOT_APPLIED",
        "    if query.batch_id < action.batch_id:\n        return Fate.UNKNOWN",
        "a micro-batch that nobody has committed yet stays in doubt for ever",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "topic-told-by-its-name",
        _TOPICS,
        "    return Fate.APPLIED if topic and topic.topic_id == action.topic_id else Fate.UNKNOWN",
        "    return Fate.APPLIED if topic else Fate.UNKNOWN",
        "who creates a topic takes another's of the same name for its own",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "doubt-that-never-ends",
        "spark_eos/log/commit/answers.py",
        "is_final = self._in_doubt.is_lost_for_good(state, ticket.request_id)",
        "is_final = False",
        "a fenced producer repeats for ever what can no longer be found out",
        _OF_DOUBT,
    ),
    Mutant(
        "files-of-a-commit-that-is-lost",
        "spark_eos/clients/producer/transaction_manager.py",
        "        self._leave(lost)\n",
        "",
        "files are deleted that may be in the log, since nothing tells",
        _OF_DOUBT,
    ),
    Mutant(
        "final-though-it-may-come",
        "spark_eos/log/commit/in_doubt.py",
        "            or doubt.entry_outcome is not None\n            or doubt.may_come(state)\n",
        "            or doubt.entry_outcome is not None\n",
        "a producer gives up what a leader may still write",
        _OF_DOUBT,
    ),
)
