"""What is known of maintenance under chaos, and readers beside it."""

from __future__ import annotations

import pytest

from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.maintenance.rolling import Roller
from spark_eos.protocol.rules import sealing
from tests.maintenance.world import append
from verification.chaos.maintenance import done_by, last_pass
from verification.chaos.readers import Watcher
from verification.retiring import RETIRED_AT_ONCE


@pytest.fixture
def log(log_url, monkeypatch):
    monkeypatch.setattr(sealing, "PAGE_ROWS", 2)
    log = Log.create(log_url, snapshot_interval=4, config=RETIRED_AT_ONCE)
    log.ensure_topic("t")
    return log


def test_what_was_done_is_counted_and_a_line_that_was_cut_off_is_not(tmp_path):
    said = tmp_path / "said"
    said.write_text(
        '{"step": "retire", "text": "retired 3 entries", "failed": false}\n'
        '{"step": "retire", "text": "nothing to do", "failed": false}\n'
        '{"step": "vacuum", "text": "2 objects until readers have finished", "failed": false}\n'
        '{"step": "vacuum", "text": "deleted 2 data files (1 kB)", "failed": false}\n'
        '{"step": "roll", "text": "failed: busy", "failed": true}\n'
        "looking for data files\n"
        '{"step": "retire", "te'
    )
    assert str(done_by([said, said])) == "2 retire, 2 vacuum done, 2 failed"
    assert str(done_by([])) == "nothing done, 0 failed"


def test_the_last_pass_leaves_a_sound_log(log):
    append(log, *range(6))
    assert last_pass(log.url) == []
    assert Log.open(log.url).state.partitions[log.topic("t").topic_id, 0].end == 6


def test_the_last_pass_tells_what_is_wrong(log):
    append(log, *range(6))
    lost = next(info.name for info in log.store.list(paths.DATA))
    log.store.delete(lost)
    assert any(lost in problem for problem in last_pass(log.url))


def test_a_reader_knows_a_batch_that_was_written_anew_across_what_it_has_seen(log):
    append(log, 1)
    watcher = Watcher(log.url, [])
    watcher.look()
    append(log, *range(2, 5))
    assert [rolled.next_offset for rolled in Roller(log).run()] == [2]
    watcher.look()
    assert watcher.problems == []
    assert watcher.read == 4
