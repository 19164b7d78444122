"""An encrypted log and tables: it is not published."""

from __future__ import annotations

import pytest

from spark_eos import Log, Producer
from spark_eos.errors import InvalidRequestError
from spark_eos.extensions.tables.tables import Tables
from spark_eos.storage import PosixStore
from tests.needing import needs


class Keys:
    """A key in memory."""

    def key(self, key_id):
        return b"1" * 32


@needs("encryption")
def test_an_encrypted_log_is_not_published(tmp_path):
    from spark_eos.extensions.encryption.store import EncryptedStore

    log = Log.create(EncryptedStore(PosixStore(str(tmp_path / "log")), Keys(), "one"))
    with Producer(log) as producer:
        producer.send("t", b"x").result(timeout=60)
    for given in (log, str(tmp_path / "log")):
        for mode in ({}, {"mode": "copied", "location": str(tmp_path / "copies")}):
            with pytest.raises(InvalidRequestError, match=r"'lake'.*encrypted since entry"):
                Tables(given).create("lake", ["t"], **mode)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    assert not (tmp_path / "log" / "tables").exists()
