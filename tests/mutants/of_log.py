"""Breaks of the commit loop, the tail, planning, and reading and writing of rows."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_COMMIT, _LOG, _PLAN = "spark_eos/log/commit.py", "spark_eos/log/log.py", "spark_eos/log/plan.py"
_READ, _SEGMENTS, _TAIL = "spark_eos/log/read.py", "spark_eos/log/segments.py", "spark_eos/log/tail.py"
_DERIVED, _STAGING = "spark_eos/log/derived.py", "spark_eos/log/staging.py"
_OF_REQUESTS = ("tests/spark/test_requests.py",)

_OF_COMMIT = ("tests/log/test_commit.py",)
_OF_EVIDENCE = ("tests/log/test_evidence.py",)
_OF_PLAN = ("tests/log/test_plan.py",)
_OF_SEGMENTS = ("tests/log/test_segments.py",)
_OF_READING = ("tests/log/test_log.py", "tests/clients/test_consumer.py")

MUTANTS = (
    # -- commit loop ------------------------------------------------------------------------------------
    Mutant(
        "unknown-is-no",
        _COMMIT,
        "                doubted = {request.request_id for request in draft.requests}\n"
        "                failure = error\n",
        "                failure = error\n",
        "a commit without a reply counts as one that was not made",
        _OF_COMMIT,
    ),
    Mutant(
        "refused-is-no",
        _COMMIT,
        "                doubted = {request.request_id for request in draft.requests}\n"
        "                failure = StoreUnavailableError(\n",
        "                failure = StoreUnavailableError(\n",
        "a commit whose slot exists, but is not shown, counts as one that was not made",
        _OF_COMMIT,
    ),
    Mutant(
        "earlier-try-forgotten",
        _COMMIT,
        "doubted = {one.request_id for one in own if self._may_be_in(entry.seq, one.request_id)}",
        "doubted = set()",
        "a no to a repeated call counts for its first try too",
        _OF_COMMIT,
    ),
    Mutant(
        "done-before-it-is-durable",
        _COMMIT,
        "            self._store.settle(names.entry(seq, self._tail.state.entries_per_folder))\n",
        "",
        "an answer rests on an entry whose dead writer did not sync it",
        _OF_COMMIT,
    ),
    Mutant(
        "gap-not-seen",
        _LOG,
        "        _check_end(log, retry or Retry())\n",
        "",
        "a log from whose middle an entry was removed ends there",
        ("tests/corruption/test_single_bytes.py",),
    ),
    Mutant(
        "own-entry-not-recognised",
        _COMMIT,
        "        self._answer_found(draft.tickets)\n        for ticket in",
        "        for ticket in",
        "a slot that is taken is always another's: what landed without a reply is committed again",
        _OF_COMMIT,
    ),
    Mutant(
        "taken-slot-is-ours",
        _COMMIT,
        "                if self._tail.state.seq >= entry.seq:\n",
        "                if attempt:\n                    self._succeed(draft, entry, since)\n"
        "                    return\n"
        "                if self._tail.state.seq >= entry.seq:\n",
        "a slot that is taken after a lost reply passes for our own entry: its body is not compared",
        _OF_COMMIT,
    ),
    Mutant(
        "never-alone",
        _COMMIT,
        "(ALONE_S if self._alone else IDLE_S)",
        "IDLE_S",
        "a stream that is alone with its log looks for news before every commit",
        _OF_REQUESTS,
    ),
    Mutant(
        "believed-for-ever",
        _LOG,
        "now < self._believed_until:",
        "True:",
        "that a bucket holds another log by now is never noticed",
        _OF_REQUESTS,
    ),
    Mutant(
        "refused-is-stored",
        _DERIVED,
        "        if store.knows_its_own:\n",
        "        if True:\n",
        "a snapshot that was refused, though there is none, counts as stored: what it stands for is retired",
        ("tests/log/test_snapshots.py",),
    ),
    Mutant(
        "refused-file-is-staged",
        _STAGING,
        "            if self._store.size(self._name) != self.size:\n                return False\n",
        "            if self._store.size(self._name) != self.size:\n                return False\n"
        "        except ObjectNotFoundError:\n            return True\n",
        "a file that an object store refused, though there was none, is committed",
        ("tests/log/test_staging.py",),
    ),
    Mutant(
        "next-slot-while-in-doubt",
        _COMMIT,
        "                self._store.create(name, data)",
        "                self._store.create(names.entry(entry.seq + attempt), data)",
        "a try in doubt is repeated in the next slot",
        _OF_COMMIT,
    ),
    Mutant(
        "new-identity-for-each-call",
        _COMMIT,
        "Ticket(propose, request_id or self._clock.unique(), writer)",
        "Ticket(propose, self._clock.unique(), writer)",
        "a repeated call does not find its own entry",
        _OF_COMMIT,
    ),
    Mutant(
        "refused-on-an-old-state",
        _COMMIT,
        "        if refused and self._follow().seq != state.seq:",
        "        if refused and self._tail.state.seq != state.seq:",
        "a request is refused by what others have changed since",
        _OF_COMMIT,
    ),
    Mutant(
        "refused-while-in-doubt",
        "spark_eos/log/doubts.py",
        "sent.slot == _UNSEEN or sent.slot > state.seq else",
        "sent.slot == _UNSEEN or sent.slot > state.seq + 1 else",
        "a caller is told no while an earlier try may still land",
        _OF_COMMIT,
    ),
    Mutant(
        "verdict-on-a-draft",
        _COMMIT,
        "            if verdict is not None and not draft.requests:",
        "            if verdict is not None:",
        "a verdict rests on an entry that may never be written",
        _OF_COMMIT,
    ),
    Mutant(
        "told-no-who-may-be-in",
        _COMMIT,
        "                    elif self._tail.is_watched(ticket.request_id):\n                        ticket.error",
        "                    elif False:\n                        ticket.error",
        "after an error of the loop itself callers are told no who may be in",
        _OF_COMMIT,
    ),
    Mutant(
        "earlier-try-not-looked-for",
        _COMMIT,
        "            if self._answer_found(tickets) or self._answer_lost(tickets, state):\n                return",
        "            pass",
        "a repeated call whose entry landed meanwhile commits again",
        _OF_COMMIT,
    ),
    # -- tail -------------------------------------------------------------------------------------------
    Mutant(
        "tail-jumps",
        _TAIL,
        "            if self._state.seq == entry.seq - 1:\n                self._seen = since",
        "            if self._state.seq != entry.seq:\n                self._seen = since",
        "a state that is not the next one is taken over, even an older one",
        ("tests/log/test_tail.py",),
    ),
    Mutant(
        "watched-anew",
        _TAIL,
        "            self._watched.setdefault(request_id, None)",
        "            self._watched[request_id] = None",
        "what was found of a request is forgotten when it is tried again",
        _OF_EVIDENCE,
    ),
    # -- planning and reading ---------------------------------------------------------------------------
    Mutant(
        "aborted-rows-shown",
        _PLAN,
        "        isolation is Isolation.READ_COMMITTED\n        and bool(partition.aborted)",
        "        isolation is Isolation.READ_UNCOMMITTED\n        and bool(partition.aborted)",
        "read_committed shows aborted rows",
        _OF_PLAN,
    ),
    Mutant(
        "an-abort-hides-its-producer",
        _PLAN,
        "(row.producer.producer_id, row.producer.number) in partition.aborted",
        "any(row.producer.producer_id == one for one, _ in partition.aborted)",
        "one abort hides all that its producer ever wrote",
        _OF_PLAN,
    ),
    Mutant(
        "open-rows-shown",
        _PLAN,
        "return partition.last_stable_offset if isolation is Isolation.READ_COMMITTED else partition.end",
        "return partition.end",
        "read_committed goes past the last stable offset",
        _OF_PLAN,
    ),
    Mutant(
        "range-unchecked",
        _PLAN,
        "    if not partition.start <= start <= end <= limit:",
        "    if not start <= end:",
        "records that are not there are planned, and silently left out",
        _OF_PLAN,
    ),
    Mutant(
        "skip-forgotten",
        _PLAN,
        "last - first, first - row.base_offset, row.file",
        "last - first, 0, row.file",
        "a read from the middle of a batch gives its first rows",
        _OF_PLAN,
    ),
    Mutant(
        "slice-from-the-front",
        _READ,
        "table.slice(fetch.skip, fetch.count)",
        "table.slice(0, fetch.count)",
        "a read from the middle of a batch gives its first rows",
        _OF_READING,
    ),
    Mutant(
        "old-rows-not-upgraded",
        _READ,
        "Records(table if newest.version == layout.version else upgrade(table, newest), fetch.offset)",
        "Records(table, fetch.offset)",
        "rows of an older schema lack the new columns",
        _OF_READING,
    ),
    Mutant(
        "rows-of-another-version",
        _READ,
        "layout = layout_of(topic, fetch.file.schema_version)",
        "layout = layout_of(topic)",
        "rows of an older schema are decoded as if they had the newest one",
        _OF_READING,
    ),
    Mutant(
        "time-of-the-next-batch",
        "spark_eos/protocol/index.py",
        "            if newer_than_ms is None or row.max_timestamp_ms >= newer_than_ms:",
        "            if newer_than_ms is None or row.max_timestamp_ms > newer_than_ms:",
        "the last record of a batch is not found by its own timestamp",
        _OF_READING,
    ),
    # -- rows -------------------------------------------------------------------------------------------
    Mutant(
        "crc-unchecked",
        _SEGMENTS,
        "    if crc != batch.crc:",
        "    if crc < 0:",
        "damaged rows are returned",
        _OF_SEGMENTS,
    ),
    Mutant(
        "short-read-unchecked",
        _SEGMENTS,
        "    if data.size != batch.length:",
        "    if not data.size:",
        "a file that was cut off is told as a wrong checksum",
        _OF_SEGMENTS,
    ),
    Mutant(
        "rows-not-counted",
        _SEGMENTS,
        "    if count != batch.count:",
        "    if count < 0:",
        "offsets are given to other rows than were counted",
        _OF_SEGMENTS,
    ),
    Mutant(
        "order-within-partitions-lost",
        _SEGMENTS,
        'order = np.argsort(narrow, kind="stable")',
        "order = np.lexsort((-np.arange(len(narrow)), narrow))",
        "rows of a partition are stored backwards",
        _OF_SEGMENTS,
    ),
    Mutant(
        "lengths-by-their-mean",
        "spark_eos/log/selection.py",
        " or (np.diff(ends) != width).any()",
        "",
        "values whose lengths differ are cut as if they were equal",
        ("tests/log/test_selection.py",),
    ),
    Mutant(
        "short-keys-go-on",
        "spark_eos/log/murmur.py",
        "state ^= (mixed ^ state) & _all_bits(going)",
        "state = mixed",
        "a short key among longer ones is hashed with bytes of the next one",
        ("tests/log/test_partitioners.py",),
    ),
    Mutant(
        "error-keeps-the-file",
        _SEGMENTS,
        "            self.abandon()\n            raise",
        "            raise",
        "after an error in the middle of it a file goes on, with rows missing",
        _OF_SEGMENTS,
    ),
    Mutant(
        "partitioner-sign",
        "spark_eos/log/partitioners.py",
        "key_hashes(keys) & np.int32(0x7FFFFFFF)",
        "np.abs(key_hashes(keys))",
        "keys with a negative hash go to another partition than in Kafka",
        ("tests/log/test_partitioners.py",),
    ),
    # -- files of a commit, sweeps ----------------------------------------------------------------------
    Mutant(
        "files-not-looked-for",
        _LOG,
        "        if not self.store.is_local:",
        "        if self.store.is_local:",
        "a file that is not there is committed",
        ("tests/log/test_log.py",),
    ),
    Mutant(
        "size-not-compared",
        _LOG,
        "            if size != staged.file.size:",
        "            if size > staged.file.size:",
        "a file that was cut off is committed",
        ("tests/log/test_log.py",),
    ),
    Mutant(
        "timeout-by-the-wall-clock",
        "spark_eos/log/sweep.py",
        "waited_ms = int((self._clock.monotonic() - watch.since) * 1000)",
        "waited_ms = self._clock.now_ms() - producer.started_ms",
        "a clock that jumps aborts transactions",
        _OF_EVIDENCE,
    ),
    Mutant(
        "time-of-the-transaction-before",
        "spark_eos/log/sweep.py",
        "self._watched.get(stamp) or _Watch(now) for stamp in opened}",
        "next((w for s, w in self._watched.items() if s.producer_id == stamp.producer_id), _Watch(now))"
        " for stamp in opened}",
        "the time of a producer's earlier transactions counts for its newest",
        ("tests/log/test_sweep.py",),
    ),
)
