"""What is said of a place in which a copy or a restore has not ended."""

from __future__ import annotations

import pytest

from spark_eos.errors import NotALogError
from spark_eos.log import paths
from spark_eos.log.handle.unfinished import not_a_log
from spark_eos.log.log import Log
from spark_eos.storage import MemoryStore

MARKS = {
    '{"log_id": "l-1"}': "unfinished copy of log l-1, and is no log yet. It goes on with `eoslog copy LOG PLACE`",
    '{"log_id": "l-1", "close": true, "data": "s3://b/d"}': "It goes on with `eoslog copy LOG PLACE --close`",
    '{"log_id": "l-1", "backup": "b-1", "entry": 7}': "unfinished restore of backup b-1 up to entry 7, and is no log "
    "yet. It goes on with `eoslog restore REPOSITORY PLACE --backup b-1 --to-entry 7`",
    "[1]": "unfinished copy of log [1], and",
    "half of a mark": "unfinished copy of log half of a mark, and",
}


@pytest.mark.parametrize("mark", MARKS)
def test_what_was_begun_and_how_it_ends(mark):
    store = MemoryStore()
    store.create(paths.COPY, mark.encode())
    assert MARKS[mark].replace("PLACE", store.url) in str(not_a_log(store))


@pytest.mark.parametrize("make", [Log.create, Log.open_or_create])
def test_no_log_is_made_there(make):
    store = MemoryStore()
    store.create(paths.COPY, b'{"log_id": "l-1"}')
    with pytest.raises(NotALogError, match="unfinished copy of log l-1"):
        make(store)
    assert [info.name for info in store.list("")] == [paths.COPY]


def test_a_place_without_a_mark():
    assert "is not a log: it has no _log/" in str(not_a_log(MemoryStore()))
