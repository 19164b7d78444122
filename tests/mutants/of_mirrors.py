"""Small breaks of mirrors."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PLAN = "spark_eos/mirror/plan.py"
_MIRRORING = "spark_eos/mirror/mirroring.py"
_PURE = ("tests/mirror/test_plan.py",)
_WORKING = ("tests/mirror/test_waiting.py",)
_MOVING = ("tests/mirror/test_moving.py",)

MUTANTS = (
    Mutant(
        "bound-request-handed-over",
        "spark_eos/log/commit/loop.py",
        "if draft.is_alone or not self._group.submit",
        "if not self._group.submit",
        "a leader adds a request to a state on which it was not proposed",
        ("tests/log/test_group_commit.py",),
    ),
    Mutant(
        "mirror-of-another-topic",
        _MIRRORING,
        "        self._check_topics(sorted({one.topic for one in due}))\n",
        "",
        "records of a topic that was made again are added to those of the old one",
        _WORKING,
    ),
    Mutant(
        "mirror-skips-what-expired",
        _MIRRORING,
        "            if not self._options.accept_loss:\n",
        "            if False:\n",
        "records that Kafka has deleted are skipped without a word",
        _WORKING,
    ),
    Mutant(
        "mirror-takes-a-record-twice",
        "spark_eos/mirror/buffer.py",
        "        if offset < self.next_offset:\n            return\n",
        "",
        "a record that the client gives a second time is in the log twice",
        _WORKING,
    ),
    Mutant(
        "mirror-gives-up",
        _MIRRORING,
        "        except RetriableError as error:\n            self._tell(",
        "        except ConfigError as error:\n            self._tell(",
        "a mirror ends when Kafka or the store does not answer for a moment",
        _WORKING,
    ),
    Mutant(
        "mirror-plan-of-an-older-state",
        _PLAN,
        "    if log_ends(state, batch.shares) != batch.starts:\n",
        "    if False:\n",
        "the offset map says that rows are where another writer's are",
        _PURE,
    ),
    Mutant(
        "mirror-batch-from-anywhere",
        _PLAN,
        "SourceProgress(None if share.before is None else share.before.text, end.text)",
        "SourceProgress(None, end.text)",
        "a batch does not say where the last one ended",
        _PURE,
    ),
    Mutant(
        "mirror-begins-again",
        _PLAN,
        "    if any(one.transactional_id in state.queries for one in partitions):\n",
        "    if False:\n",
        "a second process notes again where a topic begins",
        _PURE,
    ),
    Mutant(
        "mirror-does-not-fence",
        _PLAN,
        "        elif producer.run_id != run_id:\n",
        "        elif False:\n",
        "a process that takes a partition over leaves the run of its predecessor",
        _PURE,
    ),
    Mutant(
        "mirror-sends-a-group-back",
        "spark_eos/mirror/groups.py",
        " or known.offset < at.offset:",
        " or known.offset != at.offset:",
        "a group that has moved over reads records again",
        _PURE,
    ),
    Mutant(
        "mirror-joins-over-a-gap",
        "spark_eos/mirror/runs.py",
        "(runs[0].kafka, runs[0].log) == end:",
        "runs[0].log == end[1]:",
        "the offset map passes over a gap of Kafka",
        _PURE,
    ),
    Mutant(
        "mirror-moves-a-group-past-records",
        "spark_eos/mirror/groups.py",
        "            elif one.other is not None:\n",
        "            elif False:\n",
        "a group never reads what producers of the log wrote before it moved",
        _MOVING,
    ),
    Mutant(
        "mirror-resumes-at-the-next-record",
        "spark_eos/mirror/groups.py",
        "        place = offsets.resume(offset)\n",
        "        place = None if (found := offsets.to_log(offset)) is None else found.offset\n",
        "a group is sent past records of the log that lie between two of Kafka's",
        _MOVING,
    ),
    Mutant(
        "mirror-takes-an-unfinished-batch-for-done",
        "spark_eos/mirror/moving/checkpoint.py",
        '        if unfinished == "refuse":\n',
        "        if False:\n",
        "a Spark job moves past a micro-batch whose rows are perhaps in no sink",
        _MOVING,
    ),
    Mutant(
        "mirror-moves-a-job-past-records",
        "spark_eos/mirror/moving/checkpoint.py",
        "if other is not None and not accept_loss:",
        "if False:",
        "a Spark job never reads what producers of the log wrote before it moved",
        _MOVING,
    ),
)
