"""`open_store`: which URL names which store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_eos.errors import ConfigError, UnsupportedStoreError
from spark_eos.storage import MemoryStore, PosixStore, Settings, log_settings_of, open_store, shared_store
from spark_eos.storage.urls import absolute


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("/data/log", "/data/log"),
        ("/data/log/", "/data/log"),
        ("/data//a/../log", "/data/log"),
        ("file:///data/log", "/data/log"),
        ("file:/data/log", "/data/log"),
        ("FILE:///data/log", "/data/log"),
        ("file://localhost/data/log", "/data/log"),
        ("file:///with%20space/%C3%BC", "/with space/ü"),
        ("file:///a?b#c", "/a?b#c"),
        ("/with%20percent/a?b#c", "/with%20percent/a?b#c"),
        (Path("/data/log"), "/data/log"),
        (Path("/data/s3:/log"), "/data/s3:/log"),
    ],
)
def test_folders(url: str | Path, root: str) -> None:
    store = open_store(url)
    assert isinstance(store, PosixStore)
    assert store.root == store.url == root
    assert open_store(store.url).url == store.url


@pytest.mark.parametrize("url", ["some/log", "./some/log", "some/log/", "some/../some/log"])
def test_relative_paths_become_absolute(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store(url).url == open_store(Path(url)).url == str(tmp_path / "some/log")


def test_a_path_object_is_never_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store(Path("s3:/log")).url == str(tmp_path / "s3:/log")
    assert absolute(Path("s3:/log")) == str(tmp_path / "s3:/log")


def test_a_shared_store_of_a_relative_path_is_the_one_of_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert shared_store("log").url == str(tmp_path / name / "log")


def test_a_path_s_own_uri_finds_it(tmp_path: Path) -> None:
    path = tmp_path / "10% of ü #1?"
    assert open_store(path.as_uri()).url == str(path)


def test_opening_touches_nothing(tmp_path: Path) -> None:
    open_store(tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_memory() -> None:
    store = open_store("memory://test-urls")
    assert isinstance(store, MemoryStore)
    store.create("a", b"1")
    assert open_store("memory://test-urls/").read("a").to_pybytes() == b"1"
    assert open_store("memory://test-urls").url == store.url == "memory://test-urls"
    assert [*open_store("memory://test-urls-2").list("")] == []


@pytest.mark.parametrize(
    "url",
    [
        "s3n://b/p",
        "wasbs://c@a/p",
        "hdfs:///p",
        "https://h/p",
        "xy:z",
    ],
)
def test_other_schemes_are_refused_with_what_is_supported(url: str) -> None:
    with pytest.raises(UnsupportedStoreError) as caught:
        open_store(url)
    for part in (url, url.partition(":")[0], "file:///data/log", "s3://", "memory://name", f"./{url}"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("", "empty"),
        ("/a\0b", "NUL"),
        ("file:///a%00b", "NUL"),
        ("file://data/log", "file:///data/log"),
        ("file:data/log", "absolute"),
        ("file:", "absolute"),
        ("file://", "absolute"),
        ("memory:", "memory://name"),
        ("memory://", "memory://name"),
        ("memory:///x", "memory://name"),
        ("memory:x", "memory://name"),
    ],
)
def test_malformed_urls(url: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        open_store(url)


def test_what_a_process_has_made_sure_of_is_done_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of Spark is a new object, mostly in a process that has written there before."""
    synced: list[int] = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), fsync(descriptor))[0])
    counts = []
    for name in ("a", "b", "c"):
        synced.clear()
        shared_store(tmp_path / "log").create(f"data/t/{name}", b"x")
        counts.append(len(synced))
    assert counts[1:] == [2, 2], "the file, and its name"
    assert counts[0] > 2
    assert shared_store(tmp_path / "log") is shared_store((tmp_path / "log").as_uri())


@pytest.mark.parametrize("path", ["~/log", "~", Path("~/log")])
def test_a_home_of_a_shell_is_no_folder_here(
    path: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with the name ``~`` was made."""
    monkeypatch.chdir(tmp_path)
    for call in (open_store, absolute):
        with pytest.raises(ConfigError, match="only a shell puts a home folder in the place of ~"):
            call(path)
    assert open_store(tmp_path / "~").url == str(tmp_path / "~")


def test_settings_of_group_commit_are_for_logs_in_buckets() -> None:
    """One file of settings may be for several logs."""
    settings = Settings({"machines.listen": "10.0.0.1:7777"})
    assert log_settings_of("s3://bucket/log", settings) == settings
    assert log_settings_of("/data/log", settings) == Settings({})
