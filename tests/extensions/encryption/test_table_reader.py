"""Whole topics of an encrypted log in DuckDB and Polars."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.clients.table_plan import plan_table
from spark_eos.extensions.encryption.store import EncryptedStore
from spark_eos.storage import PosixStore
from tests.clients.test_table_reader import ENGINES, SCHEMA, rows
from tests.sealing import seal


class Keys:
    """A key in memory."""

    def key(self, key_id):
        return b"1" * 32


@ENGINES
def test_an_encrypted_log_is_read_with_its_keys(tmp_path, engine):
    """No other program reads its files, which have no plain Parquet in them; without keys the reader says so."""
    inner = PosixStore(str(tmp_path / "log"))
    log = Log.create(EncryptedStore(inner, Keys(), "one"))
    Admin(log).create_topic("t", 1, schema=SCHEMA)
    with Producer(log) as producer:
        producer.send_arrow("t", rows(0, 40), partition=0).result(timeout=60)
    seal(log, "t", 20, 40)
    files = [*(tmp_path / "log" / "tables").rglob("*.parquet")]
    assert [path.read_bytes()[:6] for path in files] == [b"EOSENC"] * len(files) != []
    assert not plan_table(log, "t").files
    assert engine(log, "t").column("n").to_pylist() == [*range(40)]
    with pytest.raises(Exception, match="has no keys"):
        engine(str(tmp_path / "log"), "t")
