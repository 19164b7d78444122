"""Breaks of what the live page says of readers that are behind."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_NEWEST, _OF_NEWEST = "spark_eos/extensions/ui/reading/newest.py", ("tests/extensions/ui/test_newest.py",)
_OLDEST, _OF_OLDEST = "spark_eos/extensions/ui/reading/oldest.py", ("tests/extensions/ui/test_oldest.py",)
_GROUPS_PAGE, _OF_ADVICE = "spark_eos/extensions/ui/areas/groups.py", ("tests/extensions/ui/test_advice.py",)
_OF_TROUBLES = ("tests/extensions/ui/test_troubles.py",)
_OF_CHANGES = ("tests/extensions/ui/test_group_changes.py",)
_TROUBLES_PAGE = "spark_eos/monitoring/troubles/readers.py"

MUTANTS = (
    # -- the page: advice -----------------------------------------------------------------------------------
    Mutant(
        "group-of-a-query-beside-it",
        "spark_eos/monitoring/places.py",
        "    return groups - {\n",
        "    return groups or {\n",
        "the page has a Spark query twice, once as an empty group that is late",
        ("tests/extensions/ui/test_troubles.py",),
    ),
    Mutant(
        "what-is-held-back-is-not-told",
        _GROUPS_PAGE,
        "        held += 0 if part is None else part.end - part.last_stable_offset",
        "        held += 0",
        "a reader waits for an open transaction, and the page names no cause",
        _OF_ADVICE,
    ),
    Mutant(
        "advice-for-who-is-not-behind",
        _TROUBLES_PAGE,
        "late = [lag for lag in parts if lag.offsets and (lag.time_ms or 0) > limit_ms(state, kind, name)]",
        "late = [lag for lag in parts if lag.offsets]",
        "the page advises to start consumers of a group that is as far as can be expected",
        _OF_ADVICE,
    ),
    Mutant(
        "limit-of-all-readers",
        "spark_eos/monitoring/lag.py",
        'return setting(state, f"{limit}:{name}")',
        "return setting(state, limit)",
        "a job that runs once a day is behind five minutes after it",
        ("tests/monitoring/test_troubles.py",),
    ),
    Mutant(
        "deleted-topic-told-after-the-cure",
        "spark_eos/monitoring/places.py",
        " and end.topic not in {topic for topic, _ in offsets}",
        "",
        "an alert goes on after the query of a deleted topic has a successor",
        ("tests/monitoring/test_troubles.py",),
    ),
    Mutant(
        "group-without-offsets-stays",
        "spark_eos/clients/admin/groups.py",
        "if partitions or group not in state.offsets:",
        "if True:",
        "the cure of a query whose topic was deleted is refused",
        ("tests/monitoring/test_troubles.py",),
    ),
    Mutant(
        "query-has-no-member",
        _TROUBLES_PAGE,
        'if kind == "query":',
        "if False:",
        "the page tells of a query that it has no member",
        _OF_ADVICE,
    ),
    Mutant(
        "names-not-quoted-for-a-shell",
        "spark_eos/extensions/ui/areas/troubles.py",
        "shlex.join([",
        '" ".join([',
        "the command that the page shows is another one for a name with a blank",
        _OF_ADVICE,
    ),
    # -- the page: changes ----------------------------------------------------------------------------------
    Mutant(
        "change-without-a-look-at-its-state",
        "spark_eos/extensions/ui/writes/change.py",
        "            if change.find(self, state.seq) is not None:",
        "            if False:",
        "a record whose delayed write arrives behind the look of the repeated one is written twice",
        ("tests/extensions/ui/test_produce.py",),
    ),
    Mutant(
        "change-is-not-looked-for",
        "spark_eos/extensions/ui/writes/change.py",
        "    results = None\n    with nullcontext()",
        "    raise error\n    with nullcontext()",
        "a repeated press of a button is refused, though its first one was done",
        _OF_CHANGES,
    ),
    Mutant(
        "plan-is-not-compared",
        "spark_eos/extensions/ui/writes/groups.py",
        "if (now := _committed(state, group, at)) != before:",
        "if (now := _committed(state, group, at)) is before is at:",
        "a reset that was planned takes back what another browser has set since",
        _OF_CHANGES,
    ),
    Mutant(
        "unknown-offsets-shown-as-a-number",
        "spark_eos/extensions/ui/areas/history.py",
        "if is_known and action.sources else None",
        "",
        "of a source that is not of the log the page shows that 0 offsets were read",
        ("tests/extensions/ui/test_query_batches.py",),
    ),
    Mutant(
        "another-topic-of-the-name-is-deleted",
        "spark_eos/extensions/ui/writes/topics.py",
        "if topic_of(state, name, follower.url).topic_id != topic_id:",
        "if False:",
        "a page that was open deletes a topic that was created again under the name of the one it shows",
        ("tests/extensions/ui/test_topic_changes.py",),
    ),
    # -- the page: records -------------------------------------------------------------------------------------
    Mutant(
        "newest-reads-every-partition",
        _NEWEST,
        "return -self._fetch.batch.max_timestamp_ms, -self",
        "return -(2**62), -self",
        "a page of the newest records reads a batch of each partition, however many there are",
        _OF_NEWEST,
    ),
    Mutant(
        "older-ones-begin-at-the-end",
        _NEWEST,
        "min(max(before.get(number, end), start), end)",
        "end",
        "the next page of older records is the first one again",
        _OF_NEWEST,
    ),
    Mutant(
        "oldest-reads-every-partition",
        _OLDEST,
        "first_ms = max(self._fetch.batch.min_timestamp_ms, self._since_ms or 0)",
        "first_ms = 0",
        "a page of the oldest records reads a batch of each partition",
        _OF_OLDEST,
    ),
    Mutant(
        "time-looked-for-on-each-page",
        _OLDEST,
        "self._since_ms = None if self.was_read else place.time_ms",
        "self._since_ms = place.time_ms",
        "the next page of records from a time on begins at that time again",
        _OF_OLDEST,
    ),
    Mutant(
        "csv-is-computed",
        "spark_eos/extensions/ui/reading/exports.py",
        'kind != "value" and text.startswith(_FORMULA)',
        "False",
        "a record that begins with = is computed by the spreadsheet that opens the file",
        ("tests/extensions/ui/test_cells.py",),
    ),
    Mutant(
        "filter-reads-what-cannot-match",
        "spark_eos/extensions/ui/reading/wanted.py",
        "bool(self.row_filter.kept([fetch]))",
        "True",
        "a filter by time reads all batches of the topic",
        ("tests/extensions/ui/test_expression.py",),
    ),
    # -- the page: in a browser -------------------------------------------------------------------------------
    Mutant(
        "history-does-not-wait-for-an-entry",
        "spark_eos/extensions/ui/static/js/operations.js",
        "self.live = asked.until === null || answer.until < asked.until;",
        "self.live = asked.until === null;",
        "the history stays at an older entry than the one that was asked for, which the server saw a moment later",
        ("tests/extensions/ui/test_browser.py",),
    ),
    Mutant(
        "pressed-is-drawn-anew",
        "spark_eos/extensions/ui/static/js/api.js",
        "if (timer !== null) await new",
        "if (false) await new",
        "a click is lost if news comes while the button is down",
        ("tests/extensions/ui/test_browser.py",),
    ),
    Mutant(
        "age-by-a-clock-that-is-set",
        "spark_eos/extensions/ui/follower.py",
        "round((self._clock.monotonic() - self._read_s) * 1000)",
        "self.now_ms() - self.read_ms",
        "a page whose server cannot read the log shows it as fresh, after the server's clock was set back",
        ("tests/extensions/ui/test_page.py",),
    ),
    Mutant(
        "page-stops-with-a-clock",
        "spark_eos/extensions/ui/static/js/main.js",
        "performance.now() - shownAt > OLD_MS",
        "Date.now() - shownAt > OLD_MS",
        "a clock that is set back stops the page: ages do not grow any more",
        ("tests/extensions/ui/test_browser.py",),
    ),
    Mutant(
        "no-snapshot-is-not-known",
        "spark_eos/extensions/ui/areas/troubles.py",
        "default=0)",
        "default=None)",
        "status warns of a log without a snapshot, and the page does not",
        _OF_TROUBLES,
    ),
    Mutant(
        "the-page-has-all-space",
        "spark_eos/extensions/ui/areas/troubles.py",
        "            *space,\n",
        "",
        "status tells that the disk is full, and the page does not",
        _OF_TROUBLES,
    ),
    Mutant(
        "unknown-comes-first",
        "spark_eos/extensions/ui/question.py",
        'return 2, 0, ""',
        'return -2, 0, ""',
        "a list by lag begins with what has none",
        ("tests/extensions/ui/test_pages_of_lists.py",),
    ),
    Mutant(
        "damage-is-of-all-logs",
        "spark_eos/log/data/records.py",
        "return _DAMAGE[url]",
        "return sum(_DAMAGE.values())",
        "an alert names a sound log beside the damaged one",
        ("tests/extensions/metrics/test_metrics.py",),
    ),
    Mutant(
        "a-question-is-answered-by-another",
        "spark_eos/extensions/ui/static/js/writing.js",
        "if (!dialog.open) resolve",
        "resolve",
        "a yes that is given at once does nothing",
        ("tests/extensions/ui/test_writing.py",),
    ),
)
