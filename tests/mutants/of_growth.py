"""Breaks of sealed indexes, segments that are rewritten, snapshots, and maintenance."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_SEALING, _SEGMENTS = "spark_eos/protocol/rules/sealing.py", "spark_eos/protocol/actions/segments.py"
_PIECES, _INDEX = "spark_eos/protocol/encoding/index_pages.py", "spark_eos/protocol/index.py"
_SNAPSHOT = "spark_eos/protocol/encoding/snapshots.py"
_SNAPSHOTS, _MAINTENANCE = "spark_eos/log/snapshots/snapshots.py", "spark_eos/log/snapshots/maintenance.py"

# Hypothesis takes minutes to make an example small.
_OF_SEALING = ("tests/protocol/test_sealing.py", "-k", "not any_history")
_OF_SNAPSHOTS = ("tests/log/test_snapshots.py",)
_OF_MAINTAIN = ("tests/maintenance/test_maintain.py",)

MUTANTS = (
    # -- sealing ----------------------------------------------------------------------------------------
    Mutant(
        "runs-over-topics",
        "spark_eos/protocol/encoding/offset_columns.py",
        "        if key != (topic_id, expected):",
        "        if key[1] != expected:",
        "partitions of one topic are written down as those of another",
        ("tests/protocol/test_offset_columns.py",),
    ),
    Mutant(
        "texts-of-sources-made-up",
        "spark_eos/protocol/encoding/offset_columns.py",
        "is_text = bool(offsets) and fields[name] == offsets_text(offsets)",
        "is_text = bool(offsets)",
        "a source's position is another text in the log than its writer has, and the restarted query is refused",
        ("tests/protocol/test_offset_columns.py",),
    ),
    Mutant(
        "sealed-rows-encoded-at-once",
        _SEALING,
        "        pages.append(page)\n        _join(pages)",
        "        pages.append(page)\n        page.crc  # noqa: B018\n        _join(pages)",
        "a commit that seals a million rows waits until they are encoded",
        ("tests/log/test_background.py",),
    ),
    Mutant(
        "dropped-before-it-is-measured",
        _INDEX,
        "        self.measures  # noqa: B018  (what is dropped cannot be measured any more)\n",
        "",
        "a follower drops rows that another process has stored, and cannot find them any more",
        ("tests/log/test_snapshots.py", "tests/protocol/test_sealing.py"),
    ),
    Mutant(
        "open-rows-sealed",
        _SEALING,
        "    return len(tail) if partition.end == stable else tail.find(stable)",
        "    return len(tail)",
        "rows are sealed whose transaction may yet be aborted",
        _OF_SEALING,
    ),
    Mutant(
        "abort-not-written-into-rows",
        _PIECES,
        "            return row._replace(kind=Kind.ABORTED)",
        "            return row",
        "records of an aborted transaction are visible once they are sealed",
        _OF_SEALING,
    ),
    Mutant(
        "aborts-never-forgotten",
        _SEALING,
        "                aborted = aborted.delete(one)",
        "                pass",
        "a partition remembers every transaction that was ever aborted in it",
        _OF_SEALING,
    ),
    Mutant(
        "abort-forgotten-before-its-end",
        _SEALING,
        "if head[0] == Kind.ABORT}",
        "}",
        "rows of an aborted transaction that are still in the tail are visible once its first ones are sealed",
        _OF_SEALING,
    ),
    Mutant(
        "sealed-anywhere",
        _SEALING,
        "    return seq > 0 and seq % state.snapshot_interval == 0",
        "    return seq > 0",
        "indexes are sealed behind every entry",
        _OF_SEALING,
    ),
    Mutant(
        "pieces-never-joined",
        _SEALING,
        "        if end - start < 2 * FAN_OUT:",
        "        if end - start > 0:",
        "a state has as many pages as the log has had batches, over 512",
        _OF_SEALING,
    ),
    # -- segments ---------------------------------------------------------------------------------------
    Mutant(
        "two-winners",
        _SEGMENTS,
        "    if end <= first or checksum(pages[first:end]) != action.replaced:",
        "    if end <= first:",
        "segments that somebody has rewritten are replaced by what another made of the old ones",
        _OF_SEALING,
    ),
    Mutant(
        "segments-with-a-hole",
        _SEGMENTS,
        "        if row.base_offset != at or row.count < 1:",
        "        if False:",
        "offsets vanish when segments are rewritten",
        _OF_SEALING,
    ),
    Mutant(
        "segments-end-anywhere",
        _SEGMENTS,
        "    if at != action.next_offset:",
        "    if False:",
        "new rows end before those that they replace, or lie over the next ones",
        _OF_SEALING,
    ),
    Mutant(
        "rolled-below-the-floor",
        _SEGMENTS,
        "        check_floor(state, name)",
        "        pass",
        "a rolled file that vacuum may have deleted is put into the log",
        _OF_SEALING,
    ),
    # -- pages and snapshots as bytes ------------------------------------------------------------------
    Mutant(
        "piece-unchecked",
        _PIECES,
        "    if google_crc32c.value(body) != page.crc:",
        "    if False:",
        "another page of an index is read in place of the one the log knows",
        _OF_SEALING,
    ),
    Mutant(
        "pieces-told-by-their-offsets",
        _PIECES,
        "repr([page.identity for page in pages])",
        "repr([(page.base_offset, page.next_offset) for page in pages])",
        "pages that somebody has rewritten pass for the old ones",
        _OF_SEALING,
    ),
    Mutant(
        "snapshot-crc-unchecked",
        _SNAPSHOT,
        "    body, schema = _FRAME.unwrap(data, schemas(), where)",
        "    body, schema = bytes(memoryview(data)[20:]), list(schemas().values())[-1]",
        "a damaged snapshot is read",
        _OF_SEALING,
    ),
    Mutant(
        "snapshot-of-another-entry",
        _SNAPSHOT,
        "    if state.seq != seq:",
        "    if False:",
        "a snapshot under the name of another passes for it",
        _OF_SEALING,
    ),
    Mutant(
        "snapshot-without-aborts",
        "spark_eos/protocol/encoding/snapshot_partitions.py",
        '        "aborted": [list(item) for item in sorted(one.aborted)],',
        '        "aborted": [],',
        "who begins from a snapshot sees aborted records",
        _OF_SEALING,
    ),
    Mutant(
        "time-of-a-piece",
        _INDEX,
        "        if newer_than_ms is not None and page.max_timestamp_ms < newer_than_ms:",
        "        if newer_than_ms is not None and page.max_timestamp_ms <= newer_than_ms:",
        "the newest record of a page is not found by its own timestamp",
        _OF_SEALING,
    ),
    Mutant(
        "time-of-a-sealed-row",
        _INDEX,
        "(newer_than_ms is None or row.max_timestamp_ms >= newer_than_ms):\n                yield row",
        "(newer_than_ms is None or row.max_timestamp_ms > newer_than_ms):\n                yield row",
        "the last record of a sealed batch is not found by its own timestamp",
        _OF_SEALING,
    ),
    Mutant(
        "start-drops-its-piece",
        _INDEX,
        "for page in self.pages if page.next_offset > offset)",
        "for page in self.pages if page.base_offset >= offset)",
        "a log start in the middle of a page takes the whole page with it",
        _OF_SEALING,
    ),
    # -- snapshots --------------------------------------------------------------------------------------
    Mutant(
        "snapshot-without-its-pieces",
        _SNAPSHOTS,
        "            self._pages.save(_pages(state))\n",
        "",
        "a snapshot refers to pages that nobody has stored",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "snapshot-before-its-pieces",
        _SNAPSHOTS,
        "            self._pages.save(_pages(state))\n"
        "            with paused(when=len(state.partitions) > MANY):\n"
        "                data = encode_snapshot(state)\n"
        "            self._store_snapshot(paths.snapshot(state.seq), data, check)\n",
        "            with paused(when=len(state.partitions) > MANY):\n"
        "                data = encode_snapshot(state)\n"
        "            self._store_snapshot(paths.snapshot(state.seq), data, check)\n"
        "            self._pages.save(_pages(state))\n",
        "who dies between a snapshot and its pages leaves a log that cannot be read",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "snapshot-of-others-deleted",
        _SNAPSHOTS,
        "                if self._store.read(name).to_pybytes() == data:\n",
        "                if True:\n",
        "a process that wakes in another history deletes the snapshot that is there by right",
        ("tests/log/test_divergence.py",),
    ),
    Mutant(
        "snapshot-without-a-reply-stays",
        _SNAPSHOTS,
        "        except OutcomeUnknownError:\n            self._confirm(name, data, check)\n",
        "        except OutcomeUnknownError:\n",
        "a process that wakes in another history leaves a snapshot there, if the reply was lost",
        ("tests/log/test_divergence.py",),
    ),
    Mutant(
        "snapshot-of-an-entry-in-doubt",
        _SNAPSHOTS,
        "            self._store.ensure_durable(paths.entry(state.seq, state.entries_per_folder))\n",
        "",
        "a snapshot outlives the entry that it is the state of: its slot is free again",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "snapshot-of-another-not-settled",
        _SNAPSHOTS,
        "                self._store.ensure_durable(paths.snapshot(before.seq))\n",
        "",
        "entries are retired for a snapshot that a power cut can still take away",
        _OF_MAINTAIN,
    ),
    Mutant(
        "snapshot-found-not-settled",
        _SNAPSHOTS,
        "            self._store.ensure_durable(paths.snapshot(newest.seq))\n",
        "",
        "maintenance retires entries for a snapshot that a power cut can still take away",
        _OF_MAINTAIN,
    ),
    Mutant(
        "damaged-snapshot-is-the-end",
        _SNAPSHOTS,
        "                damage = damage or error\n",
        "                raise\n",
        "one damaged snapshot, and nobody can open the log",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "dead-leave-no-snapshot",
        _SNAPSHOTS,
        "        self._mine = created or missed",
        "        self._mine = created",
        "a snapshot that is missing because its writer died is made up for by nobody",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "one-snapshot-stays",
        _SNAPSHOTS,
        "KEPT = 2\n",
        "KEPT = 1\n",
        "if the newest snapshot is damaged there is no other",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "pieces-stay-in-memory",
        _SNAPSHOTS,
        "            self.stored = max(self.stored, state.seq)\n            forget(_pages(state))",
        "            self.stored = max(self.stored, state.seq)",
        "a process keeps all in memory that was ever sealed",
        _OF_SNAPSHOTS,
    ),
    # -- maintenance -----------------------------------------------------------------------------------------
    Mutant(
        "maintenance-of-another-log",
        "spark_eos/log/snapshots/maintenance.py",
        "        if not self._is_same():",
        "        if False:",
        "who slept retires entries of the log that was put in the place of its own",
        ("tests/log/test_snapshots.py",),
    ),
    Mutant(
        "retired-too-far",
        _MAINTENANCE,
        "return min(snapshot - state.snapshot_interval, ",
        "return min(snapshot, ",
        "entries go that a reader would need if the newest snapshot were damaged",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "retirement-not-looked-at",
        _MAINTENANCE,
        "            self._check()\n        except DivergedLogError as error:\n            raise",
        "            pass\n        except DivergedLogError as error:\n            raise",
        "which entry of another history a process has overwritten is told to no operator",
        ("tests/log/test_divergence.py",),
    ),
    Mutant(
        "many-retired-after-one-look",
        _MAINTENANCE,
        "        self._make_sure()\n        seq = self._retirer.step(",
        "        seq = self._retirer.step(",
        "a process overwrites a hundred entries of a log that was put back from a copy meanwhile",
        ("tests/log/test_divergence.py",),
    ),
    Mutant(
        "first-entry-retired",
        _MAINTENANCE,
        "        low, high = 1, limit + 1",
        "        low, high = 0, limit + 1",
        "nothing says any more what log it is",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "maintenance-fails-commits",
        _MAINTENANCE,
        "        except Exception as error:  # noqa: BLE001  (the commit that it follows is durable)\n",
        "        except ZeroDivisionError as error:\n",
        "an error of the maintenance is told as if the commit had failed",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "maintenance-takes-all-time",
        _MAINTENANCE,
        "            if self._saved_s < _SMALLEST_S or now < self._rest_until:",
        "            self._saved_s = 1.0\n            if now < self._rest_until:",
        "a writer does maintenance in place of its commits",
        _OF_SNAPSHOTS,
    ),
    Mutant(
        "maintenance-off-for-all",
        "spark_eos/log/handle/reading.py",
        "        twin = copy.copy(self)\n",
        "        twin = self\n",
        "one client that leaves maintenance to others switches it off for all that share the handle",
        ("tests/clients/test_auto_maintenance.py",),
    ),
    # -- settings ---------------------------------------------------------------------------------------
    Mutant(
        "compression-of-a-topic-ignored",
        "spark_eos/log/data/task_io.py",
        "compression=compression_of_topic(topic, compression),",
        "compression=compression,",
        "compression.type of a topic is for rolling alone",
        ("tests/test_settings.py",),
    ),
    Mutant(
        "segment-ms-ignored",
        "spark_eos/maintenance/tails.py",
        "    return now_ms - partition.index.tail[0].max_timestamp_ms > longest_ms",
        "    return False",
        "the newest records of a quiet topic are never compacted",
        ("tests/test_settings.py",),
    ),
    Mutant(
        "retries-without-end",
        "spark_eos/clients/producer/sender.py",
        ' or attempt >= self._settings["retries"]',
        "",
        "a producer that is to try twice tries for delivery.timeout.ms",
        ("tests/test_settings.py",),
    ),
)
