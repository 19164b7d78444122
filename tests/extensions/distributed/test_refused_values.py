"""What many processes give: a text that is none of theirs, and records without a key, are refused."""

# ruff: noqa: F811  (fixtures are imported)

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from spark_eos import DistributedTransaction, StagedReceipt, StagedWriter, TransactionToken
from spark_eos.errors import (
    AbortableError,
    ConfigError,
    InvalidRecordError,
    InvalidRequestError,
    StoreUnavailableError,
)
from tests.clients.test_keys_of_compacted_topics import NO_KEY, url, values  # noqa: F401  (a fixture)


@pytest.mark.parametrize("kind", [TransactionToken, StagedReceipt])
def test_texts_of_many_processes(kind):
    with pytest.raises(InvalidRequestError, match=r"^5 is not a .*: give its text"):
        kind.parse(5)


def test_a_record_without_a_key_for_a_compacted_topic(url):
    with (
        DistributedTransaction.begin(url, "job") as transaction,
        StagedWriter(transaction.token, 0) as writer,
    ):
        with pytest.raises(InvalidRecordError, match=NO_KEY):
            writer.send("t", b"1")
        with pytest.raises(InvalidRecordError, match="no key"):
            writer.write("t", pa.table({"value": [b"2"]}))
        writer.send("t", b"3", key=b"k")
        writer.finish()
        transaction.commit([writer.receipt])
    assert values(url) == [b"3"]


@pytest.mark.parametrize("task", [None, "", True, 1.0, object()])
def test_a_task_without_a_name_of_its_own(url, task):
    """All tasks would be ``None``, and only one of them committed."""
    transaction = DistributedTransaction.begin(url, "job")
    with pytest.raises(ConfigError, match="as its task: give text or a whole number"):
        StagedWriter(transaction.token, task)


def test_names_of_tasks(url):
    transaction = DistributedTransaction.begin(url, "job")
    for task, name in ((np.int64(3), "3"), (Path("a.csv"), "a.csv"), (np.str_("b"), "b")):
        with StagedWriter(transaction.token, task) as writer:
            pass
        assert writer.receipt.task == name


@pytest.mark.parametrize(
    "rows", [pd.DataFrame({"key": ["k"]}), {"key": "k"}, [b"k"], "k", [None], [("key", "k")]], ids=repr
)
def test_rows_that_are_no_records(url, rows):
    transaction = DistributedTransaction.begin(url, "job")
    with (
        StagedWriter(transaction.token, 0) as writer,
        pytest.raises(
            InvalidRecordError, match=r"write takes a pyarrow\.Table or RecordBatch, or a list of dicts"
        ),
    ):
        writer.write("t", rows)


def fetched(error):
    yield {"key": "k", "value": "1"}
    if error is not None:
        raise error


@pytest.mark.parametrize(
    "rows",
    [
        lambda: [{"key": "k", "value": "1"}, {"key": "k", "value": 5}],
        lambda: fetched(ConnectionError("the database is gone")),
    ],
    ids=["refused", "failed"],
)
def test_the_first_rows_of_a_write_that_ended_with_an_error_are_in_no_receipt(url, rows):
    """They were, where the program went on after the error."""
    transaction = DistributedTransaction.begin(url, "job")
    with (
        pytest.raises(AbortableError, match=r"after 1 of its rows.*Run the task again") as failed,
        StagedWriter(transaction.token, 0) as writer,
        pytest.raises((InvalidRecordError, ConnectionError)),
    ):
        writer.write("t", rows())
    assert "rows of task '0' are missing" in str(failed.value)
    with StagedWriter(transaction.token, 0) as writer:
        with pytest.raises(InvalidRecordError):
            writer.write("t", [{"key": "k", "value": 5}])
        writer.write("t", fetched(None))
    transaction.commit([writer.receipt])
    assert values(url) == [b"1"]


def test_receipts_that_come_once_are_committed_by_the_next_call(url, monkeypatch):
    """The iterator of ``pool.map`` was empty then, and the transaction committed without a row."""
    transaction = DistributedTransaction.begin(url, "job")

    def load(number):
        with StagedWriter(transaction.token, number) as writer:
            writer.send("t", f"{number}", key="k")
        return writer.receipt

    receipts = map(load, range(3))
    with monkeypatch.context() as patch:
        patch.setattr(transaction, "_send", refuse)
        with pytest.raises(StoreUnavailableError):
            transaction.commit(receipts)
    assert len(transaction.commit(receipts)) == 3
    assert values(url) == [b"0", b"1", b"2"]


def refuse(*_):
    raise StoreUnavailableError("nothing was done")


def test_receipts_of_an_iterator_that_has_failed(url):
    transaction = DistributedTransaction.begin(url, "job")
    receipts = map(refuse, range(2))
    with pytest.raises(StoreUnavailableError):
        transaction.commit(receipts)
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match="give them again"):
            transaction.commit(receipts)
    assert transaction.outcome() == "open"


@pytest.mark.parametrize("version", [1.5, "1", date(2026, 11, 27)])
def test_a_version_that_is_no_number(url, version):
    """It was refused by the commit, when all tasks had done their work, or could not be handed to them."""
    with pytest.raises(ConfigError, match="give both of them, or none"):
        DistributedTransaction.begin(url, "job", txn_app_id="app", txn_version=version)


def test_a_version_of_numpy(url):
    transaction = DistributedTransaction.begin(url, "job", txn_app_id="app", txn_version=np.int64(7))
    assert TransactionToken.parse(str(transaction.token)).txn_version == 7
