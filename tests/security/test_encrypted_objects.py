"""What a bucket holds of an encrypted log, in MinIO: no key and no value of a record; names and settings in clear."""

from __future__ import annotations

import base64
import json
import uuid

import pytest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.maintenance.rolling import Roller
from spark_eos.storage import Settings, open_store
from tests.security.roles import values
from verification.retiring import RETIRED_AT_ONCE

SECRETS = (b"geheimer-wert", b"geheimer-schluessel")


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_no_record_is_in_the_bucket_in_clear(minio_server, tmp_path, form):
    (tmp_path / "keys.json").write_text(json.dumps({"one": base64.b64encode(b"1" * 32).decode()}))
    settings = Settings(
        {
            **minio_server.settings,
            "encryption.keys": f"file:{tmp_path}/keys.json",
            "encryption.key.id": "one",
        }
    )
    url = f"{minio_server.url}/{uuid.uuid4().hex[:8]}"
    Log.create(url, settings=settings, snapshot_interval=5, config=RETIRED_AT_ONCE)
    config = {"segment.format": form, "compression.type": "none"}
    Admin(url, settings).create_topic("visible-topic", 1, config=config)
    with Producer(url, settings) as producer:
        for _ in range(20):  # A batch of one record each.
            producer.send("visible-topic", SECRETS[0], key=SECRETS[1]).result()
    with Consumer(url, {**settings, "group.id": "visible-group"}) as consumer:
        consumer.commit({TopicPartition("visible-topic", 0): 1})
    log = Log.open(url, settings=settings)
    assert Roller(log, tail_rows=1).run()
    log.maintenance.snapshot()
    assert values(url, settings, "visible-topic", 1) == [SECRETS[0]] * 20

    stored = open_store(url, minio_server.settings)
    objects = {info.name: stored.read(info.name).to_pybytes() for info in stored.list("")}
    assert [name for name in objects if name.startswith("_log/snapshots/")]
    rewritten = [name for name in objects if name.endswith(f".{form}") and name.count("/") > 2]
    assert rewritten
    assert not [name for name, body in objects.items() if any(secret in body for secret in SECRETS)]
    # What stays plain, as the guide says.
    for name in (b"visible-topic", b"visible-group"):
        assert any(name in body for at, body in objects.items() if at.startswith("_log/"))
