"""Breaks of vacuum, rolling, compaction and retention, and of readers that were outrun by them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_VACUUM, _RETENTION = "spark_eos/maintenance/vacuum.py", "spark_eos/maintenance/retention.py"
_REWRITE, _ROLLING = "spark_eos/maintenance/rewrite.py", "spark_eos/maintenance/rolling.py"
_DIRTY = "spark_eos/maintenance/dirty_ratio.py"
_COMPACTION, _CLEANER = "spark_eos/maintenance/compaction.py", "spark_eos/maintenance/cleaner.py"
_SEGMENTS = "spark_eos/protocol/actions/segments.py"

_OF_VACUUM = ("tests/maintenance/test_vacuum.py",)
_OF_RETENTION = ("tests/maintenance/test_retention.py",)
_COPYING = "spark_eos/maintenance/copying.py"
_OF_COPYING = ("tests/maintenance/test_copying.py", "-k", "not processes and not bucket")
_OF_MOVING = ("tests/extensions/backup/test_moving.py", "-k", "go_far or same_call or closed_log")
# Hypothesis takes minutes to make an example small.
_OF_ROLLING = ("tests/maintenance/test_rolling.py", "-k", "not any_history")
_OF_COMPACTION = ("tests/maintenance/test_compaction.py", "-k", "not any_history")

MUTANTS = (
    # -- vacuum -----------------------------------------------------------------------------------------
    Mutant(
        "vacuum-without-a-floor",
        _VACUUM,
        "    return (RaiseStagingFloor(floor),) if state.staging_floor < floor else ()",
        "    return ()",
        "files are deleted that a writer may yet commit",
        _OF_VACUUM,
    ),
    Mutant(
        "floor-not-compared",
        _VACUUM,
        "        return staged_at(name) < floor",
        "        return staged_at(name) <= floor",
        "a file that was staged right at the floor is deleted",
        _OF_VACUUM,
    ),
    Mutant(
        "vacuum-above-the-floor",
        _VACUUM,
        "            if _is_below(info.name, floor):",
        "            if _is_below(info.name, 2**62):",
        "files of writers that have started lately are deleted",
        _OF_VACUUM,
    ),
    Mutant(
        "floor-at-the-end",
        _VACUUM,
        "        floor = max(self._polite_floor(state, note=raise_floor), state.staging_floor)",
        "        floor = state.seq + 1",
        "writers that have started lately are refused",
        _OF_VACUUM,
    ),
    Mutant(
        "not-looked-at-behind-the-floor",
        _VACUUM,
        "            state = self._take_out_data(candidates)\n",
        "            state = self._log.state\n",
        "a file is deleted that was committed just before the floor rose",
        _OF_VACUUM,
    ),
    Mutant(
        "vacuum-without-the-delay",
        _VACUUM,
        "        return self._since[leftover.name] + leftover.delay_s - self._log.clock.monotonic()",
        "        return self._since[leftover.name] - self._log.clock.monotonic()",
        "files go that a reader has planned a moment ago",
        _OF_VACUUM,
    ),
    Mutant(
        "delay-begins-anew",
        _VACUUM,
        "{leftover.name: self._since.get(leftover.name, now) for leftover in leftovers}",
        "{leftover.name: now for leftover in leftovers}",
        "who does not wait never deletes anything",
        _OF_VACUUM,
    ),
    Mutant(
        "pieces-of-the-newest-state-alone",
        _VACUUM,
        "        for snapshot in snapshots:",
        "        for snapshot in ():",
        "the older snapshot lacks pages: it is no use when the newest one is damaged",
        _OF_VACUUM,
    ),
    Mutant(
        "deleted-before-it-is-settled",
        _VACUUM,
        "            self._settle(state)\n",
        "            pass\n",
        "files are deleted for an entry that a power cut can still take away",
        _OF_VACUUM,
    ),
    Mutant(
        "vacuum-in-another-log",
        _VACUUM,
        "                self._check_same(state)",
        "                pass",
        "a vacuum that waits deletes files of the log that was put in the place of its own",
        _OF_VACUUM,
    ),
    # -- rolling ----------------------------------------------------------------------------------------
    Mutant(
        "rolled-with-aborted-records",
        _REWRITE,
        "(row.kind is not self._kind or parquet is not self._parquet or not joins)",
        "(parquet is not self._parquet or not joins)",
        "aborted records are in one batch with committed ones",
        _OF_ROLLING,
    ),
    Mutant(
        "hole-before-a-batch-forgotten",
        "spark_eos/maintenance/segments/output.py",
        "np.diff(offsets, prepend=first - 1) - 1",
        "np.diff(offsets, prepend=offsets[0] - 1) - 1",
        "records of a batch that begins with a hole get lower offsets",
        _OF_ROLLING,
    ),
    Mutant(
        "new-files-not-named",
        _REWRITE,
        "            tuple(staged.file.name for staged in self._staged),\n",
        "            (),\n",
        "a rolled file that vacuum may have deleted is put into the log",
        _OF_ROLLING,
    ),
    Mutant(
        "rolled-files-deleted-in-doubt",
        _REWRITE,
        "    except CommitOutcomeUnknownError:\n        raise\n",
        "    except CommitOutcomeUnknownError:\n        rewriters[0].discard()\n        raise\n",
        "files are deleted that a commit without a reply may refer to",
        _OF_ROLLING,
    ),
    Mutant(
        "moved-is-damage",
        _REWRITE,
        "    return not {*earlier.index.pages} <= {*newer.index.pages}",
        "    return False",
        "files that retention and vacuum have removed are told as missing",
        _OF_ROLLING,
    ),
    Mutant(
        "rolled-before-the-start",
        _ROLLING,
        "                if row.file is None or row.next_offset <= partition.start:",
        "                if row.file is None:",
        "deleted records are read, though their files may be gone, and rewritten",
        _OF_ROLLING,
    ),
    Mutant(
        "every-byte-rolled-often",
        _ROLLING,
        "    if largest is not None and part[largest].page.bytes * GROWTH > size:",
        "    if False and largest is not None:",
        "a large batch is rewritten for each small one after it",
        ("tests/maintenance/test_rolling.py", "-k", "test_plans or rewritten_often"),
    ),
    # -- compaction -------------------------------------------------------------------------------------
    Mutant(
        "older-value-wins",
        _CLEANER,
        "newest.latest(keys.hashes) <= offsets",
        "newest.latest(keys.hashes) != offsets",
        "the newest record of a key goes, and older ones stay",
        _OF_COMPACTION,
    ),
    Mutant(
        "newest-key-overwritten",
        _CLEANER,
        "        last = np.append(hashes[1:] != hashes[:-1], True) if len(hashes)",
        "        last = np.append(True, hashes[1:] != hashes[:-1]) if len(hashes)",
        "the oldest record of a key counts as its newest: none ever goes",
        _OF_COMPACTION,
    ),
    Mutant(
        "records-without-a-key-go",
        _CLEANER,
        "    flags: Flags = ~keys.present | (",
        "    flags: Flags = keys.present & (",
        "records without a key, which no other record has replaced, are deleted by compaction",
        _OF_COMPACTION,
    ),
    Mutant(
        "aborted-record-wins",
        _COMPACTION,
        "            if row.kind is Kind.DATA and row.next_offset > partition.start:",
        "            if row.batch is not None and row.next_offset > partition.start:",
        "a committed record goes because an aborted one came after it",
        _OF_COMPACTION,
    ),
    Mutant(
        "aborted-records-stay",
        _COMPACTION,
        "            or row.kind is not Kind.DATA\n",
        "",
        "aborted records stay in a compacted topic",
        _OF_COMPACTION,
    ),
    Mutant(
        "cleaned-above-the-stable-offset",
        _DIRTY,
        "        for row in Index(pages).scan(firsts[0], self._load) if firsts else ():",
        "        for row in partition.index.scan(firsts[0], self._load) if firsts else ():",
        "a record goes because one came after it whose transaction may yet be aborted",
        _OF_COMPACTION,
    ),
    Mutant(
        "cleaned-beyond-the-map",
        _COMPACTION,
        "    return not is_clean(row) and row.next_offset > under_way.end",
        "    return False",
        "what a pass has not looked at counts as compacted",
        _OF_COMPACTION,
    ),
    Mutant(
        "young-records-cleaned",
        _DIRTY,
        "row.batch.max_timestamp_ms > now_ms - lag_ms:",
        "row.batch.max_timestamp_ms > now_ms:",
        "records younger than min.compaction.lag.ms go",
        _OF_COMPACTION,
    ),
    Mutant(
        "tombstone-goes-at-once",
        _COMPACTION,
        "        expired = first_ms is not None and first_ms <= under_way.expired_ms",
        "        expired = True",
        "who reads slowly never learns that a key was deleted",
        _OF_COMPACTION,
    ),
    Mutant(
        "tombstone-goes-with-the-second-pass",
        _COMPACTION,
        "        expired = first_ms is not None and first_ms <= under_way.expired_ms",
        "        expired = first_ms is not None",
        "a tombstone goes before delete.retention.ms are over",
        _OF_COMPACTION,
    ),
    Mutant(
        "tombstone-never-goes",
        _COMPACTION,
        "        if first_ms is None:\n            first_ms = under_way.now_ms\n",
        "        first_ms = under_way.now_ms\n",
        "each pass begins the time of a tombstone again",
        _OF_COMPACTION,
    ),
    Mutant(
        "last-sequence-forgotten",
        _SEGMENTS,
        "    return replace(state, partitions=state.partitions.set(key, partition)), None",
        "    state = replace(state, partitions=state.partitions.set(key, partition))\n"
        "    for number, one in state.producers.items():\n"
        "        if key in one.sequences:\n"
        "            one = replace(one, sequences=one.sequences.delete(key))\n"
        "            state = replace(state, producers=state.producers.set(number, one))\n"
        "    return state, None",
        "a producer cannot go on after its records were compacted",
        _OF_COMPACTION,
    ),
    # -- retention --------------------------------------------------------------------------------------
    Mutant(
        "retention-cuts-a-file",
        _RETENTION,
        "                offset = _file_border(partition, offset, self._log.load)\n",
        "",
        "each publication after retention has to write a large file again",
        _OF_RETENTION,
    ),
    Mutant(
        "retention-a-moment-early",
        _RETENTION,
        "lambda piece: now_ms - piece.max_timestamp_ms > age_ms)",
        "lambda piece: now_ms - piece.max_timestamp_ms >= age_ms)",
        "records go that are just as old as they may be",
        _OF_RETENTION,
    ),
    Mutant(
        "newest-batch-never-goes",
        _RETENTION,
        "            if row.next_offset > stable or not goes(row):",
        "            if row.next_offset >= stable or not goes(row):",
        "the last batch of a partition stays however old it is",
        _OF_RETENTION,
    ),
    Mutant(
        "retention-past-the-stable-offset",
        _RETENTION,
        "            if row.next_offset > stable or not goes(row):",
        "            if not goes(row):",
        "records of an open transaction are past their time",
        _OF_RETENTION,
    ),
    Mutant(
        "active-goes-by-size",
        _RETENTION,
        "        if self._size <= 0 or size > self._size:",
        "        if self._size <= 0:",
        "less than retention.bytes stays",
        _OF_RETENTION,
    ),
    Mutant(
        "piece-in-part-goes-whole",
        _RETENTION,
        "        if page.base_offset >= offset and goes(page):",
        "        if goes(page):",
        "records that were deleted count as if they were there",
        _OF_RETENTION,
    ),
    Mutant(
        "policy-not-asked",
        _RETENTION,
        '    return "delete" in config_value(topic, "cleanup.policy", tuple)',
        "    return True",
        "compacted topics lose their oldest keys",
        _OF_RETENTION,
    ),
    Mutant(
        "clock-is-believed",
        _RETENTION,
        "        self.held_back_ms = 0 if self._trust_clock else max(now_ms - limit_ms, wrong_ms, 0)",
        "        self.held_back_ms = 0",
        "a clock that is ahead empties the log",
        _OF_RETENTION,
    ),
    Mutant(
        "retention-by-old-settings",
        _RETENTION,
        "    if topic is None or (topic.topic_id, topic.config) != (due.topic.topic_id, due.topic.config):",
        "    if topic is None:",
        "records go by settings that were changed meanwhile, or of a topic that was created again",
        _OF_RETENTION,
    ),
    # -- readers that were outrun -----------------------------------------------------------------------
    Mutant(
        "consumer-skips-silently",
        "spark_eos/clients/consumer/fetcher.py",
        "            if not self._offsets.resets:",
        "            if False:",
        "a consumer with auto.offset.reset=none goes on after records that it has not read",
        _OF_RETENTION,
    ),
    Mutant(
        "stream-skips-silently",
        "spark_eos/spark/source/source.py",
        "        if self._options.fail_on_data_loss:\n            raise _gone(at, start",
        "        if False:\n            raise _gone(at, start",
        "a query goes on after records that it has not read",
        ("tests/spark/test_maintained.py", "-k", "outrun"),
    ),
    # -- copies -----------------------------------------------------------------------------------------
    Mutant(
        "copy-makes-a-log-first",
        _COPYING,
        "            fixed = _copy_content(source, target, fixed, tell)\n",
        "            _make_a_log(target, fixed)\n            fixed = _copy_content(source, target, fixed, tell)\n",
        "a copy that was stopped can be opened, without its data",
        _OF_COPYING,
    ),
    Mutant(
        "copy-keeps-to-the-first-state",
        _COPYING,
        "            fixed = newer",
        "            raise",
        "a vacuum during a copy ends it",
        _OF_COPYING,
    ),
    Mutant(
        "copy-into-a-finished-log",
        _COPYING,
        "    if unexpected or _is_there(target, paths.entry(0)):",
        "    if False:",
        "a copy that slept goes on in a log that is in use",
        ("tests/extensions/backup/test_copy_asleep.py",),
    ),
    Mutant(
        "close-without-a-look-after",
        _COPYING,
        "        close_after(source, state)\n",
        "        close_after(source, state)\n        return\n",
        "a log passes for closed, though its slot was used and retired while the process slept",
        _OF_MOVING,
    ),
    Mutant(
        "copy-goes-unverified",
        _COPYING,
        "    if not summary.is_sound:",
        "    if False:",
        "a copy that is not sound passes for a good one",
        _OF_COPYING,
    ),
    Mutant(
        "verify-blames-the-copy",
        "spark_eos/maintenance/verify/data.py",
        "            begun < self._newest.get(topic, 0) for topic, begun in self._missing.items()",
        "            False for _ in self._missing",
        "a file that was lost by itself is put down to the order of a copy",
        _OF_COPYING,
    ),
    # -- vacuum: a full disk, a log that is put back ----------------------------------------------------------
    Mutant(
        "many-deleted-after-one-look",
        "spark_eos/maintenance/vacuum.py",
        "            self._log.check()  # Costs",
        "            pass  # Costs",
        "files of a log that was put back from a copy are deleted, as another history did not need them",
        ("tests/maintenance/test_vacuum.py", "-k", "put_back"),
    ),
    Mutant(
        "full-disk-stops-the-vacuum",
        "spark_eos/maintenance/end_marks.py",
        "        except StoreFullError as error:\n            self.error = error",
        "        except ZeroDivisionError as error:\n            self.error = None",
        "on a disk without a byte nothing is deleted, though some files need no entry first",
        ("tests/maintenance/test_vacuum.py", "-k", "full_disk or room"),
    ),
    Mutant(
        "full-disk-deletes-what-can-be-committed",
        "spark_eos/maintenance/vacuum.py",
        " for name, size in candidates.items() if _is_below(name, state.staging_floor)",
        " for name, size in candidates.items()",
        "a staged file is deleted, and its writer commits it afterwards",
        ("tests/maintenance/test_vacuum.py", "-k", "full_disk"),
    ),
)
