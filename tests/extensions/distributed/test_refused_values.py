"""What many processes give: a text that is none of theirs, and records without a key, are refused."""

# ruff: noqa: F811  (fixtures are imported)

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos import DistributedTransaction, StagedReceipt, StagedWriter, TransactionToken
from spark_eos.errors import InvalidRecordError, InvalidRequestError
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
