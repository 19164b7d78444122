"""Breaks of Spark's sink and source, and of what they read in checkpoints."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_SINK, _SOURCE, _TASK = "spark_eos/spark/sink.py", "spark_eos/spark/source.py", "spark_eos/spark/task.py"
_OFFSETS, _CHECKPOINT = "spark_eos/spark/offsets.py", "spark_eos/spark/checkpoint.py"
_PROGRESS, _SCAN = "spark_eos/spark/progress.py", "spark_eos/spark/scan.py"

# No test that is named here starts Spark.
_OF_SINK = (
    "tests/spark/test_outcomes.py",
    "tests/spark/test_fencing.py",
    "-k",
    "not frozen_driver_that_thaws",
)
_OF_SINKS_COMMIT = ("tests/spark/test_sink.py",)
_OF_SOURCE = ("tests/spark/test_source.py",)
_OF_TASKS = ("tests/spark/test_task.py",)
_OF_CHECKPOINT = ("tests/spark/test_checkpoint.py",)
_OF_REQUESTS = ("tests/spark/test_requests.py",)
_OF_OFFSETS = ("tests/spark/test_offsets.py",)

MUTANTS = (
    # -- sink -------------------------------------------------------------------------------------------
    Mutant(
        "deletes-after-an-unknown-commit",
        _SINK,
        "        except CommitOutcomeUnknownError:\n            raise  # They",
        "        except KeyboardInterrupt:\n            raise  # They",
        "files that may be in the log are deleted",
        _OF_SINK,
    ),
    Mutant(
        "refused-files-stay",
        _SINK,
        "            discard_refused(log, topics, files)\n",
        "",
        "a commit that was refused leaves its files",
        _OF_SINK,
    ),
    Mutant(
        "discards-what-it-has-not-heard-of",
        _TASK,
        "        state = log.follow()\n",
        "        state = log.state\n",
        "a commit that was refused deletes files that another process has committed",
        _OF_REQUESTS,
    ),
    Mutant(
        "plan-on-an-old-state",
        _SOURCE,
        "        if not _reaches(log.state, finish):\n",
        "        if False:\n",
        "a restarted query plans what it has not heard of as lost",
        _OF_REQUESTS,
    ),
    Mutant(
        "repeated-commit-deletes-its-files",
        _SINK,
        "        if committed.results and not was_appended(committed.results):",
        "        if not was_appended(committed.results):",
        "a commit that Spark calls twice deletes the files it has committed",
        _OF_SINK,
    ),
    Mutant(
        "replay-keeps-its-files",
        _SINK,
        "            log.discard(files)\n",
        "            pass\n",
        "a replay that finds its batch in the log leaves its own files",
        _OF_SINK,
    ),
    Mutant(
        "files-not-looked-for-by-the-sink",
        _SINK,
        "            log.check_visible(files)\n",
        "",
        "a file that executors wrote elsewhere is committed",
        _OF_SINK,
    ),
    Mutant(
        "checkpoint-of-another-query",
        _SINK,
        "        if told is None or told.run_id is None or told.query_id != query_id:",
        "        if told is None or told.run_id is None:",
        "offsets are taken from the checkpoint of another query",
        _OF_SINKS_COMMIT,
    ),
    Mutant(
        "finished-not-asked",
        _SINK,
        "finished=finished(batchId)",
        "finished=False",
        "a zombie fences the successor that has finished its batch",
        _OF_SINK,
    ),
    # -- tasks ------------------------------------------------------------------------------------------
    Mutant(
        "committed-files-deleted",
        _TASK,
        "                if staged.file.name not in listed and staged_at(staged.file.name) > boundary",
        "",
        "a refusal deletes files that are in the log",
        _OF_SINK,
    ),
    Mutant(
        "tasks-out-of-order",
        _TASK,
        "tuple(file for message in told for file in message.files)",
        "tuple(file for message in reversed(told) for file in message.files)",
        "rows of one partition change their order",
        _OF_SINKS_COMMIT,
    ),
    Mutant(
        "failed-task-leaves-files",
        _TASK,
        "                    writer.abandon()\n",
        "                    pass\n",
        "a task that fails leaves files",
        _OF_TASKS,
    ),
    # -- progress, checkpoint, offsets ------------------------------------------------------------------
    Mutant(
        "offsets-of-another-log-committed",
        _PROGRESS,
        "    if finish.log_id != log_id:",
        "    if not finish.log_id:",
        "offsets of another log are committed in this one",
        _OF_TASKS,
    ),
    Mutant(
        "first-batch-begins-at-its-end",
        _PROGRESS,
        "        begin = finish.initial  #",
        "        begin = finish.positions  #",
        "it is not compared where the first batch of a query begins",
        _OF_TASKS,
    ),
    Mutant(
        "batch-begins-at-its-end",
        _CHECKPOINT,
        "    starts = checkpoint.require_offsets(batch_id - 1)",
        "    starts = checkpoint.require_offsets(batch_id)",
        "a batch passes for one that reads nothing",
        _OF_CHECKPOINT,
    ),
    Mutant(
        "planned-is-finished",
        _CHECKPOINT,
        'name = f"commits/{batch_id}"',
        'name = f"offsets/{batch_id}"',
        "a batch passes for done as soon as it is planned",
        _OF_CHECKPOINT,
    ),
    Mutant(
        "half-an-offsets-file",
        _CHECKPOINT,
        '                _check_json(path, f"the offset of source {number}", line)\n',
        "                pass\n",
        "an offset that was cut off in the checkpoint is taken",
        _OF_CHECKPOINT,
    ),
    Mutant(
        "newer-offsets-taken",
        _OFFSETS,
        "    if version > FORMAT_VERSION:",
        "    if version > FORMAT_VERSION + 1:",
        "offsets of a newer format are read as if they were known",
        _OF_OFFSETS,
    ),
    Mutant(
        "offsets-in-any-order",
        _OFFSETS,
        "    for topic, partition, offset in sorted(\n",
        "    for topic, partition, offset in list(\n",
        "equal offsets have different texts, and Spark sees new data where there is none",
        _OF_OFFSETS,
    ),
    Mutant(
        "partitions-without-an-id",
        _OFFSETS,
        "        if nameless:",
        "        if len(nameless) > 9:",
        "an offset is taken that does not say which incarnation of a topic it means",
        _OF_OFFSETS,
    ),
    # -- source -----------------------------------------------------------------------------------------
    Mutant(
        "log-id-not-compared",
        _SOURCE,
        "        if offset.log_id != log.log_id:",
        "        if not offset.log_id:",
        "a checkpoint that is pointed at another log skips or repeats rows",
        _OF_SOURCE,
    ),
    Mutant(
        "old-checkpoint-reads-a-new-topic",
        _SOURCE,
        "            if topic is not None and topic.topic_id != topic_id:",
        "            if topic is not None and not topic.topic_id:",
        "a topic that was created again is read from where the old one ended",
        _OF_SOURCE,
    ),
    Mutant(
        "deleted-topic-passed-over",
        _SOURCE,
        "            if topic is None and self._options.fail_on_data_loss:",
        "            if topic is None and not self._options.fail_on_data_loss:",
        "a topic that is gone is silently left out",
        _OF_SOURCE,
    ),
    Mutant(
        "ahead-of-the-log",
        _SOURCE,
        "            if stop < position:",
        "            if stop < 0:",
        "a query that is ahead of a log that was put back goes on, and skips what is written next",
        _OF_SOURCE,
    ),
    Mutant(
        "batch-ahead-of-the-log",
        _SOURCE,
        "        if stop > end:",
        "        if stop < 0:",
        "a batch is replayed with fewer rows than it had",
        _OF_SOURCE,
    ),
    Mutant(
        "lost-records-passed-over",
        _SOURCE,
        "        if self._options.fail_on_data_loss:\n            raise OffsetOutOfRangeError",
        "        if not self._options.fail_on_data_loss:\n            raise OffsetOutOfRangeError",
        "records that retention removed before they were read are silently left out",
        _OF_SOURCE,
    ),
    Mutant(
        "new-partitions-from-their-end",
        _SOURCE,
        "            at: _partition(state, at).start\n",
        "            at: _partition(state, at).end\n",
        "what was written to a new partition before it was found is never read",
        _OF_SOURCE,
    ),
    Mutant(
        "initial-not-asked",
        _SOURCE,
        "begin.positions.get(at, finish.initial.get(at, partition.start))",
        "begin.positions.get(at, partition.start)",
        "a replay begins at the log's start instead of where the batch began",
        _OF_SOURCE,
    ),
    Mutant(
        "initial-not-noted",
        _SOURCE,
        "            initial={**begin.initial, **fresh},\n",
        "            initial=begin.initial,\n",
        "a replay does not know where a new partition began",
        _OF_SOURCE,
    ),
    Mutant(
        "available-now-runs-on",
        _SOURCE,
        "            if self._target is None:",
        "            if limit is not None:",
        "an AvailableNow run never ends while somebody writes",
        _OF_SOURCE,
    ),
    Mutant(
        "source-past-the-stable-offset",
        _SOURCE,
        "stop = position if partition is None else end_offset(partition, self._isolation)",
        "stop = position if partition is None else partition.end",
        "a batch ends behind the last stable offset, and its rows are not there yet",
        _OF_SOURCE,
    ),
    Mutant(
        "cut-task-repeats-rows",
        _SCAN,
        "            tasks[-1].append(fetch.take(first, taken))",
        "            tasks[-1].append(fetch.take(0, taken))",
        "a batch that is cut into two tasks gives its first rows twice",
        _OF_SOURCE,
    ),
    Mutant(
        "limit-forgotten-by-the-smallest",
        "spark_eos/spark/admission.py",
        "math.ceil(share) if share < 1 else math.floor(share)",
        "math.floor(share)",
        "a small partition beside large ones is never read",
        _OF_SOURCE,
    ),
)
