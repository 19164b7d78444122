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
from tests import starting
from verification.processes import ROOT, environment

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


def paths(installed):
    return os.pathsep.join([str(installed), str(ROOT)])


def run(program, installed, url):
    """What the program says where that is installed."""
    return starting.run(program, url, PYTHONPATH=paths(installed)).stdout


def test_it_passes_the_contract(installed, tmp_path):
    """As the page says."""
    tests = tmp_path / "test_toy_store.py"
    tests.write_text(CONTRACT)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tests],
        env=environment(PYTHONPATH=paths(installed)), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert re.search(r"^[0-9]{2,} passed", done.stdout, re.MULTILINE), done.stdout


def test_clients_find_an_installed_store(installed, tmp_path):
    assert run("storage/writes_and_reads", installed, f"toy://{tmp_path}/log") == "[b'1']\n"
    assert (tmp_path / "log/_log").is_dir()


@pytest.mark.deep
def test_tasks_of_spark_find_it(installed, tmp_path):
    assert run("storage/spark_writes_and_reads", installed, f"toy://{tmp_path}/log").split() == ["20"]
    assert (tmp_path / "log/_log").is_dir()


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of packages that this process finds."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    registry._installed.cache_clear()
    yield folder
    registry._installed.cache_clear()
    sys.modules.pop("toy_store", None)


def test_two_packages_with_one_scheme_are_refused(site):
    for name in ("one", "two"):
        folder = site / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[spark_eos.stores]\ntoy = {name}:Store\n")
    with pytest.raises(
        ConfigError, match=r"several packages have a store for toy: URLs \(one:Store, two:Store\)"
    ):
        Producer("toy://x").send("t", b"1")


def test_a_store_that_cannot_be_loaded_is_named(site, tmp_path):
    with zipfile.ZipFile(wheel(tmp_path, "[spark_eos.stores]\ntoy = toy_store:Missing\n")) as file:
        file.extractall(site)
    with pytest.raises(ConfigError, match="the store for toy: URLs, toy_store:Missing, cannot be loaded"):
        Producer("toy://x").send("t", b"1")


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
