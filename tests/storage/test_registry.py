"""Stores that another package brings: by an entry point, or registered in this process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import ConfigError, UnsupportedStoreError
from spark_eos.storage import MemoryStore, open_store, register_store, registry

PAGE = (Path(__file__).parents[2] / "docs/guide/stores/own.md").read_text(encoding="utf-8")
TOY, CONTRACT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def wheel(folder, entry_points="[spark_eos.stores]\ntoy = toy_store:ToyStore\n"):
    """A package of another author, as it is published."""
    path = folder / "toy_store-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("toy_store.py", TOY)
        file.writestr(
            "toy_store-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: toy-store\nVersion: 1.0\n"
        )
        file.writestr(
            "toy_store-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr("toy_store-1.0.dist-info/entry_points.txt", entry_points)
        file.writestr("toy_store-1.0.dist-info/RECORD", "")
    return path


@pytest.fixture
def installed(tmp_path):
    """The folder into which it is installed."""
    folder = tmp_path / "site"
    with zipfile.ZipFile(wheel(tmp_path)) as file:
        file.extractall(folder)
    return folder


def run(script, installed, *arguments):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert not done.returncode, done.stderr[-3000:]
    return done.stdout


def test_it_passes_the_contract(installed, tmp_path):
    """As the page says."""
    (tmp_path / "test_toy_store.py").write_text(CONTRACT)
    script = "import pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '--rootdir', *sys.argv[1:]]))"
    done = run(script, installed, str(tmp_path), str(tmp_path / "test_toy_store.py"))
    assert re.search(r"^[0-9]{2,} passed", done, re.MULTILINE), done


CLIENTS = """
import sys
from spark_eos import Consumer, Producer, TopicPartition
with Producer(sys.argv[1], {"transactional.id": "t"}) as producer:
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"1")
    producer.commit_transaction()
with Consumer(sys.argv[1], {"auto.offset.reset": "earliest"}) as consumer:
    consumer.assign([TopicPartition("t", 0)])
    print([record.value for record in consumer.poll(1000)])
"""

SPARK = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.range(20, numPartitions=2).selectExpr("cast(id as string) value")
rows.write.format("eoslog").option("topic", "t").option("num.partitions", 2).mode("append").save(sys.argv[1])
print(spark.read.format("eoslog").option("subscribe", "t").load(sys.argv[1]).count())
"""


def test_clients_find_an_installed_store(installed, tmp_path):
    assert run(CLIENTS, installed, f"toy://{tmp_path}/log") == "[b'1']\n"
    assert (tmp_path / "log/_log").is_dir()


@pytest.mark.deep
def test_tasks_of_spark_find_it(installed, tmp_path):
    assert run(SPARK, installed, f"toy://{tmp_path}/log").split() == ["20"]
    assert (tmp_path / "log/_log").is_dir()


def test_two_packages_with_one_scheme_are_refused(tmp_path):
    for name in ("one", "two"):
        folder = tmp_path / f"site/{name}-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[spark_eos.stores]\ntoy = {name}:Store\n")
    script = """
from spark_eos.errors import ConfigError
from spark_eos.storage import open_store
try:
    open_store("toy://x")
except ConfigError as error:
    print(error)
"""
    assert "several packages have a store for toy: URLs (one:Store, two:Store)" in run(
        script, tmp_path / "site"
    )


def test_a_store_that_cannot_be_loaded_is_named(tmp_path):
    with zipfile.ZipFile(wheel(tmp_path, "[spark_eos.stores]\ntoy = toy_store:Missing\n")) as file:
        file.extractall(tmp_path / "site")
    script = """
from spark_eos import Producer
from spark_eos.errors import ConfigError
try:
    Producer("toy://x").send("t", b"1")
except ConfigError as error:
    print(error)
"""
    assert "the store for toy: URLs, toy_store:Missing, cannot be loaded" in run(script, tmp_path / "site")


def test_a_store_is_registered_for_this_process(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    with pytest.raises(
        UnsupportedStoreError, match="no store for shelf: URLs, and no installed package has one"
    ):
        open_store("shelf://a")
    stores = {}
    register_store("shelf", lambda url: stores.setdefault(url, MemoryStore(url.replace("shelf", "memory"))))
    with Producer("shelf://a") as producer:
        producer.send("t", b"1")
    with Consumer("shelf://a", {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert [record.value for record in consumer.poll(1000)] == [b"1"]
    assert "t" in Admin("shelf://a").list_topics()


@pytest.mark.parametrize("scheme", ["file", "memory", "s3", "abfss", "x", "Toy", "to y", ""])
def test_schemes_that_cannot_be_registered(scheme):
    with pytest.raises(ConfigError, match="a store cannot be registered for"):
        register_store(scheme, MemoryStore)


def test_settings_of_object_stores_are_none_of_theirs(monkeypatch):
    monkeypatch.setattr(
        registry, "_registered", {"shelf": lambda url: MemoryStore(url.replace("shelf", "memory"))}
    )
    with pytest.raises(ConfigError, match=r"setting s3\.region is one of an object store"):
        Admin("shelf://a", {"s3.region": "x"}).list_topics()
