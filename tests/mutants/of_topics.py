"""Breaks of the rules of offsets, log starts and topics, of the index, and of entries as bytes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_ACTIONS = "spark_eos/protocol/actions"
_STARTS, _TOPICS, _OFFSETS = f"{_ACTIONS}/log_start.py", f"{_ACTIONS}/topics.py", f"{_ACTIONS}/offsets.py"

_OF_PRODUCERS = ("tests/protocol/test_producers.py",)
_OF_TOPICS = ("tests/protocol/test_topics.py",)
_OF_OFFSETS = ("tests/protocol/test_offsets.py", "tests/protocol/test_groups.py")

MUTANTS = (
    Mutant(
        "deleted-offsets-come-back",
        _OFFSETS,
        "    for producer_id in state.open_transactions:\n",
        "    for producer_id in ():\n",
        "an open transaction gives a group the offsets that an administrator has deleted",
        _OF_OFFSETS,
    ),
    Mutant(
        "committer-of-any-partition",
        _OFFSETS,
        "groups.check_committer(state, action.group, action.member, keys)",
        "groups.check_committer(state, action.group, action.member, ())",
        "a member commits for a partition that another one holds",
        _OF_OFFSETS,
    ),
    Mutant(
        "offsets-before-the-commit",
        _OFFSETS,
        "    if action.producer is None:",
        "    if action.producer is None or state.log_id:",
        "offsets of a transaction are committed before its end",
        _OF_OFFSETS,
    ),
    Mutant(
        "metadata-without-bound",
        _OFFSETS,
        "> MAX_METADATA_BYTES:",
        "> MAX_METADATA_BYTES * 2:",
        "the metadata of an offset may be longer than Kafka's bound",
        _OF_OFFSETS,
    ),
    Mutant(
        "log-start-past-open-transactions",
        _STARTS,
        "stable = partition.last_stable_offset",
        "stable = partition.end",
        "retention removes rows of an open transaction",
        _OF_TOPICS,
    ),
    Mutant(
        "overwritten-behind-an-open-transaction",
        _STARTS,
        "target.offset == TO_THE_END and partition.open",
        "False",
        "what a write was to replace comes back when another writer's transaction ends",
        _OF_TOPICS,
    ),
    Mutant(
        "log-start-goes-back",
        _STARTS,
        "        if start > partition.start:",
        "        if start != partition.start:",
        "a log start goes back to records that are gone",
        _OF_TOPICS,
    ),
    Mutant(
        "staging-floor-falls",
        f"{_ACTIONS}/staging_floor.py",
        "staging_floor=max(state.staging_floor, action.seq)",
        "staging_floor=action.seq",
        "files that were deleted can be committed again",
        _OF_TOPICS,
    ),
    Mutant(
        "topic-of-another-incarnation",
        _TOPICS,
        "    if topic_id is not None and topic.topic_id != topic_id:",
        "    if topic_id == '':",
        "requests for a deleted topic go to the next one of its name",
        _OF_TOPICS,
    ),
    Mutant(
        "topic-deleted-under-a-transaction",
        _TOPICS,
        "touched=without(producer.touched, touched),",
        "touched=producer.touched,",
        "the end of a transaction stumbles over a topic that was deleted meanwhile",
        _OF_TOPICS,
    ),
    Mutant(
        "offsets-of-a-deleted-topic",
        _TOPICS,
        "        offsets = offsets.set("
        "group, without(committed, [key for key in committed if key[0] == action.name]))",
        "        pass",
        "a group reads the next topic of the name from where it stood in the deleted one",
        _OF_TOPICS,
    ),
    Mutant(
        "pending-offsets-of-a-deleted-topic",
        _TOPICS,
        "pending=without(producer.pending, read),",
        "pending=producer.pending,",
        "a transaction commits offsets of a topic that was deleted meanwhile",
        _OF_TOPICS,
    ),
    Mutant(
        "partitions-shrink",
        _TOPICS,
        "        if action.partitions < had:",
        "        if action.partitions < 0:",
        "partitions vanish with their records",
        _OF_TOPICS,
    ),
    Mutant(
        "newest-transaction-is-stable",
        "spark_eos/protocol/state.py",
        "min(self.open.values(), default=self.end)",
        "max(self.open.values(), default=self.end)",
        "the last stable offset is that of the newest open transaction, not of the oldest",
        _OF_PRODUCERS,
    ),
    Mutant(
        "appends-are-seen-by-the-loser",
        "spark_eos/protocol/index_rows.py",
        "        if len(rows) != opened or not opened:  # No rows at all: they are shared by all empty partitions.\n"
        "            rows = rows[:opened]\n"
        "        rows.append(row)\n"
        "        # Two threads may have appended to one list at once: the one that came second takes a copy.\n"
        "        if rows[opened] is not row:\n"
        "            rows = [*rows[:opened], row]\n",
        "        rows.append(row)\n",
        "rows of a draft that lost its slot are in the states of others",
        ("tests/protocol/test_index.py",),
    ),
    Mutant(
        "entry-crc-unchecked",
        "spark_eos/protocol/encoding/frame.py",
        "        if google_crc32c.value(body) != crc:",
        "        if not body:",
        "a damaged entry is read",
        ("tests/protocol/test_codec.py",),
    ),
    Mutant(
        "entry-of-another-slot",
        "spark_eos/protocol/encoding/entries.py",
        "    if entry.seq != seq:",
        "    if entry.seq < 0:",
        "an entry that was copied to another slot is read there",
        ("tests/protocol/test_codec.py", "tests/log/test_tail.py"),
    ),
    # -- bounds -------------------------------------------------------------------------------------------
    Mutant(
        "bounds-unchecked",
        "spark_eos/protocol/rules/apply.py",
        "        bounds.check(request)",
        "        pass",
        "numbers that nobody can add up come into the log, and it cannot be opened any more",
        ("tests/protocol/test_bounds.py",),
    ),
    Mutant(
        "quick-check-without-limits",
        "spark_eos/protocol/rules/predicate.py",
        "type({value}) is int and {low} <= {value} <= {high}",
        "type({value}) is int",
        "sums overflow: the check that is asked first lets numbers of any size into the log",
        ("tests/protocol/test_random_requests.py", "tests/protocol/test_bounds.py"),
    ),
    Mutant(
        "types-unchecked",
        "spark_eos/protocol/encoding/entries.py",
        "            check_types(request)",
        "            pass",
        "1.5 is stored as 1: a writer goes on with another state than its readers",
        ("tests/protocol/test_bounds.py",),
    ),
    Mutant(
        "rows-of-another-partition",
        f"{_ACTIONS}/segments.py",
        "row.batch.partition != action.partition",
        "False",
        "rewritten rows are read as rows of another partition than they were written for",
        ("tests/protocol/test_random_requests.py", "tests/protocol/test_bounds.py"),
    ),
    Mutant(
        "marks-of-aborted-transactions-stay",
        "spark_eos/protocol/actions/log_start.py",
        "trimmed(moved)",
        "moved",
        "aborted transactions are remembered for ever though their rows are gone",
        ("tests/protocol/test_bounds.py",),
    ),
    Mutant(
        "stored-settings-unchecked",
        "spark_eos/config/reader.py",
        '    except ConfigError as error:\n        raise ConfigError(\n            f"{where}: {error}.',
        '    except ConfigError as error:\n        raise ConfigError(\n            f"{error}.',
        "the error about a setting that a newer version has stored does not say of which topic",
        ("tests/log/test_stored_settings.py",),
    ),
)
