"""Breaks of the rules of lag, activity and metrics: what is counted, what a look costs, that it never writes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_PLACES = "spark_eos/monitoring/places.py"
_BEHIND, _LAG = "spark_eos/monitoring/behind.py", "spark_eos/monitoring/lag.py"
_ACTIVITY = "spark_eos/monitoring/activity.py"
_METRICS = "spark_eos/monitoring/metrics"
_WATCH, _PERIODIC = f"{_METRICS}/watch.py", f"{_METRICS}/periodic.py"
_STORE, _CLIENTS = f"{_METRICS}/measured_store.py", f"{_METRICS}/client_points.py"

_OF_LAG = ("tests/monitoring/test_lag.py",)
_OF_ACTIVITY = ("tests/monitoring/test_activity.py",)
_OF_WATCH = ("tests/monitoring/test_log_watch.py", "-k", "not bucket_that and not in_a_bucket")
_OF_METRICS = ("tests/monitoring/test_metrics.py",)

_TROUBLES, _STATUS = "spark_eos/monitoring/troubles", "spark_eos/monitoring/status.py"
_OF_STATUS = ("tests/cli/test_status.py",)
_OF_LOOKING = ("tests/cli/test_looking.py", "-k", "writes_nothing")

MUTANTS = (
    # -- what is wrong ------------------------------------------------------------------------------------
    Mutant(
        "in-time-is-hanging",
        f"{_TROUBLES}/transactions.py",
        "one.held_back and (is_long or is_wide)",
        "one.held_back",
        "a transaction that is at work is a trouble",
        _OF_STATUS,
    ),
    Mutant(
        "unknown-is-caught-up",
        "spark_eos/monitoring/lag.py",
        "return self.offsets is None and self.end > self.start",
        "return False",
        "a group that has committed nothing is fine",
        _OF_STATUS,
    ),
    Mutant(
        "member-silent-for-ever",
        "spark_eos/monitoring/members.py",
        "if silent_ms < _PATIENCE * member.session_timeout_ms:",
        "if True:",
        "a member that was killed is a healthy one",
        _OF_STATUS,
    ),
    Mutant(
        "the-wrong-clock",
        f"{_TROUBLES}/of_state.py",
        "if is_driven and not is_slow:",
        "if is_driven or is_slow:",
        "a machine with a wrong clock is told to mend the log's time",
        _OF_STATUS,
    ),
    Mutant(
        "lost-is-not-told",
        f"{_TROUBLES}/readers.py",
        "gone = [one for one in parts if one.lost]",
        "gone = [one for one in parts if one.lost > one.end]",
        "records were deleted before they were read, and status says nothing",
        ("tests/cli/test_afternoon.py", "-k", "retention"),
    ),
    Mutant(
        "no-names-left-is-no-trouble",
        _STATUS,
        " or not space.has_names",
        "",
        "a disk without inodes is not full",
        _OF_STATUS,
    ),
    Mutant(
        "cron-jobs-fence-each-other",
        f"{_TROUBLES}/fenced.py",
        "one.what in {FENCED, TIMED_OUT} and ",
        "",
        "four clean runs of one program are a warning, and who follows it gives up exactly-once",
        _OF_STATUS,
    ),
    Mutant(
        "verify-asks-the-store-for-the-time",
        "spark_eos/maintenance/verify/verify.py",
        "_check_time(state, clock.now_ms(), notes)",
        "_check_time(state, store.now_ms() or 0, notes)",
        "verify makes an object to learn the store's time",
        _OF_LOOKING,
    ),
    Mutant(
        "offsets-end-transactions",
        "spark_eos/cli/topics/offsets.py",
        "state = log.follow()",
        "state = (log.follow(), log.end_overdue())[1]",
        "get-offsets aborts transactions",
        _OF_LOOKING,
    ),
    # -- lag ----------------------------------------------------------------------------------------------
    Mutant(
        "lag-past-the-stable-offset",
        _PLACES,
        "stop = partition.end if place.committed > stable else stable",
        "stop = partition.end",
        "what an open transaction holds back counts as lag",
        _OF_LAG,
    ),
    Mutant(
        "lag-of-uncommitted-readers-ends-early",
        _PLACES,
        "stop = partition.end if place.committed > stable else stable",
        "stop = stable",
        "a group that reads uncommitted records is never behind",
        _OF_LAG,
    ),
    Mutant(
        "tables-without-a-version-are-not-behind",
        _PLACES,
        "(partition.start if place.begins else None)",
        "None",
        "a publication that was never published has no lag",
        _OF_LAG,
    ),
    Mutant(
        "query-after-a-reset",
        _PLACES,
        "if known is None or (known.topic_id, known.offset) != (end.topic_id, end.offset):",
        "if known is None:",
        "a query stands where it was before its offsets were reset",
        _OF_LAG,
    ),
    Mutant(
        "lost-records-are-not-told",
        _LAG,
        "lost = max(0, partition.start - first)",
        "lost = 0",
        "retention passes a reader, and nothing says so",
        _OF_LAG,
    ),
    Mutant(
        "sums-of-a-partition-as-it-was",
        _LAG,
        "if known is not None and known.partition is partition:",
        "if known is not None:",
        "lag does not see what was appended since the first look",
        _OF_LAG,
    ),
    Mutant(
        "any-number-of-pages-for-a-look",
        _LAG,
        "if load is None or budget[0] <= 0:",
        "if load is None:",
        "a look at a log of long histories reads all their index pages",
        _OF_LAG,
    ),
    Mutant(
        "aborted-records-are-lag",
        _BEHIND,
        "(stamp.producer_id, stamp.number) not in partition.aborted",
        "stamp is not None",
        "records that readers never see count as lag",
        _OF_LAG,
    ),
    Mutant(
        "whole-batch-for-its-rest",
        _BEHIND,
        "records -= row.batch.count * gone // row.count",
        "records -= 0",
        "records of a batch that were read count as lag",
        _OF_LAG,
    ),
    Mutant(
        "estimates-called-exact",
        _BEHIND,
        "size + rest.bytes, time_ms, False)",
        "size + rest.bytes, time_ms, True)",
        "estimates from index pages are shown as exact",
        _OF_LAG,
    ),
    Mutant(
        "parts-of-compacted-batches-called-exact",
        _BEHIND,
        "exact = not row.file.offsets",
        "exact = True",
        "an estimate of a compacted batch is shown as exact",
        _OF_LAG,
    ),
    # -- activity -----------------------------------------------------------------------------------------
    Mutant(
        "younger-transactions-hold-back-too",
        _ACTIVITY,
        "partition.end - first if is_oldest else 0",
        "partition.end - first",
        "offsets that two transactions hold back count twice",
        _OF_ACTIVITY,
    ),
    Mutant(
        "never-overdue",
        _ACTIVITY,
        "return not self.is_prepared and self.age_ms > self.timeout_ms",
        "return self.timeout_ms < 0",
        "a transaction past its timeout is shown as open",
        _OF_ACTIVITY,
    ),
    Mutant(
        "rates-of-the-whole-history",
        _ACTIVITY,
        "0 if had is None else had.end",
        "0",
        "each look counts all records of a partition as new",
        _OF_ACTIVITY,
    ),
    Mutant(
        "rates-without-a-window",
        _ACTIVITY,
        "self._written[0].at_s <= now_s - WINDOW_S:",
        "self._written[0].at_s < 0:",
        "rates are averages since the start",
        _OF_ACTIVITY,
    ),
    # -- what a look costs --------------------------------------------------------------------------------
    Mutant(
        "a-poll-for-each-scrape",
        _PERIODIC,
        "if self._run is None and now - self._begun_s >= self._every_s:",
        "if self._run is None:",
        "each scrape polls the log",
        _OF_WATCH,
    ),
    Mutant(
        "a-look-beside-one-that-hangs",
        _PERIODIC,
        "if self._run is None and now - self._begun_s >= self._every_s:",
        "if now - self._begun_s >= self._every_s:",
        "a store that hangs gets one thread more for each scrape",
        _OF_WATCH,
    ),
    Mutant(
        "hung-log-is-up",
        _WATCH,
        "is_up = in_time and found is not None and found.is_up",
        "is_up = found is not None and found.is_up",
        "eoslog_up stays 1 while the store does not answer",
        _OF_WATCH,
    ),
    Mutant(
        "old-figures-of-a-dead-log",
        _WATCH,
        "        if found is not None and is_up:\n            points += found.points",
        "        if found is not None:\n            points += found.points",
        "a log that cannot be read shows the figures of the last look",
        _OF_WATCH,
    ),
    Mutant(
        "another-log-in-its-place",
        _WATCH,
        "if log is None or not self._is_there() or not log.is_believed():",
        "if log is None:",
        "a log that was removed is up, and shows what it had",
        _OF_WATCH,
    ),
    Mutant(
        "a-bucket-is-believed-for-ever",
        _WATCH,
        "if log is None or not self._is_there() or not log.is_believed():",
        "if log is None or not self._is_there():",
        "a log that was removed from a bucket is up, and shows what it had",
        _OF_WATCH,
    ),
    # -- looking never writes -----------------------------------------------------------------------------
    Mutant(
        "looking-may-create",
        "spark_eos/storage/no_writes.py",
        'self._refuse("create", name)',
        "super().create(name, data)",
        "what looks may create objects",
        _OF_METRICS,
    ),
    Mutant(
        "looking-may-delete",
        "spark_eos/storage/no_writes.py",
        'self._refuse("delete", name)',
        "super().delete(name)",
        "what looks may delete objects",
        _OF_METRICS,
    ),
    Mutant(
        "looking-asks-for-the-time",
        _STORE,
        "    def now_ms(self) -> int | None:\n        return None",
        "    def now_ms(self) -> int | None:\n        return super().now_ms()",
        "what looks makes an object to learn the store's time",
        _OF_METRICS,
    ),
    # -- what is exported ---------------------------------------------------------------------------------
    Mutant(
        "entries-counted-twice",
        f"{_METRICS}/entry_counts.py",
        "and entry.seq > self._counted",
        "and entry.seq >= 0",
        "a log that is opened again is counted again",
        _OF_WATCH,
    ),
    Mutant(
        "counts-of-deleted-topics-stay",
        f"{_METRICS}/entry_counts.py",
        "if len(self.topics) > len(state.topics):",
        "if self.topics is None:",
        "the counts of all topics that ever were are kept",
        _OF_WATCH,
    ),
    Mutant(
        "clients-are-kept",
        _CLIENTS,
        "self._producer = ref(inner)",
        "self._producer = lambda: inner",
        "the series of a producer that is gone stay",
        _OF_METRICS,
    ),
    Mutant(
        "commits-of-each-client",
        f"{_METRICS}/sources.py",
        "if log is not None and id(log.commit_counts) not in counted:",
        "if log is not None:",
        "the commits of a log count once for each of its clients",
        _OF_METRICS,
    ),
    Mutant(
        "passwords-in-labels",
        f"{_METRICS}/points.py",
        "{found['place'] if keeps else host}",
        "{found['place']}",
        "the password of a URL is in its label",
        _OF_METRICS,
    ),
    Mutant(
        "under-way-is-in-doubt",
        "spark_eos/log/commit/in_doubt.py",
        "in [*self._open.items()] if one.is_troubled]",
        "in [*self._open.items()]]",
        "a writer that is busy is reported as one whose requests are in doubt",
        _OF_METRICS,
    ),
    Mutant(
        "in-doubt-for-ever",
        "spark_eos/log/commit/in_doubt.py",
        "one.found is None and self.fate(state, one_id) is Fate.UNKNOWN for",
        "one.found is None for",
        "a request whose caller has given up is in doubt for ever",
        _OF_METRICS,
    ),
    Mutant(
        "garbage-is-not-told",
        f"{_METRICS}/debt.py",
        "sum(one.size for one in found)",
        "0 * len(found)",
        "garbage grows, and nothing says so",
        _OF_WATCH,
    ),
    Mutant(
        "values-above-their-bucket",
        "spark_eos/clients/durations.py",
        "bisect_left(self._bounds, seconds)",
        "bisect_left(self._bounds, seconds) + 1 - 1 * (seconds > self._bounds[-1])",
        "calls are in the bucket above their own",
        ("tests/clients/test_durations.py",),
    ),
    Mutant(
        "prepared-is-not-counted",
        f"{_METRICS}/state_points.py",
        "if not one.has_timeout]",
        "if one.has_timeout]",
        "a prepared transaction holds readers back, and no alert tells",
        ("tests/monitoring/test_alerts_of_logs.py", "-k", "Prepared"),
    ),
    Mutant(
        "idle-scrapers-stay",
        "spark_eos/cli/operate/metrics_server.py",
        "            turn_out(self._places.enter(address[:2], connection, time.monotonic()))\n",
        "            self._places.enter(address[:2], connection, time.monotonic())\n",
        "connections that ask nothing take a thread each",
        ("tests/cli/test_idle_connections.py",),
    ),
)
