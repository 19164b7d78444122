"""Looking never writes: each command that only shows runs over a store that refuses what writes, and notes each try."""

# ruff: noqa: F811  (the fixtures are imported)

from __future__ import annotations

import json

import pytest

from spark_eos import Log
from spark_eos.cli.command import main
from spark_eos.cli.usage.examples import all_examples
from spark_eos.monitoring import Watch
from tests.cli.looked_at import SCHEME, bucket, files, path, run, scheme, tries  # noqa: F401
from tests.monitoring.test_across import World
from tests.needing import needs

LOOKS = (
    *("status LOG", "status LOG --json", "lag LOG --totals", "lag LOG --exact --json"),
    pytest.param("top LOG --json --count 2 --interval 0.1", marks=needs("ui")),
    *(
        pytest.param(line, marks=needs("metrics"))
        for line in ("metrics LOG", "metrics LOG --partitions --json")
    ),
    *("topics LOG", "topics describe LOG", "describe LOG orders", "get-offsets LOG", "configs LOG"),
    *("transactions list LOG", "transactions describe LOG --transactional-id billing"),
    *("transactions describe-producers LOG --topic orders --partition 0", "audit LOG"),
    "transactions find-hanging LOG --max-transaction-timeout 0",
    *("groups list LOG", "groups describe LOG --all-groups", "groups describe LOG --group audit --members"),
    "groups reset-offsets LOG --group audit --all-topics --to-earliest",
    pytest.param("encryption keys LOG", marks=needs("encryption")),
    pytest.param("tables list LOG", marks=needs("tables")),
    *("verify LOG", "verify LOG --quick", "dump LOG", "history LOG", "diff LOG 1 3"),
)


@pytest.mark.parametrize("line", LOOKS)
def test_a_command_that_looks_writes_nothing(line, path, tries, capsys):
    # 1: it shows that something is wrong.
    assert run(line, f"{SCHEME}://{path}") == (1 if line.startswith("status") else 0), capsys.readouterr().err
    assert capsys.readouterr().out
    assert tries == []


CHANGING = {
    *("topics create", "topics alter", "topics delete", "produce", "transactions abort"),
    *("transactions force-terminate", "groups delete", "groups delete-offsets", "groups remove-members"),
    *("expire", "maintain", "vacuum", "delete-records", "tables create", "tables publish", "tables drop"),
    *("copy", "backup", "restore", "backups list", "backups delete", "backups vacuum", "backups verify"),
    *("mirror in", "encryption rotate", "data move"),
    # Of a mirror: tests/extensions/mirror.
    *(
        "mirror offsets",
        "mirror out",
        "mirror sent",
        "mirror wait",
        "mirror group",
        "mirror checkpoint",
        "mirror check",
    ),
    "transactions resolve",
    "consume",  # It is a reader as any other: what it waits for and is past its timeout, it aborts.
    "clock",  # It makes an object to learn the store's time, and deletes it.
    *("ui", "tables versions"),  # Below.
}


def test_all_commands_that_look_are_tried():
    lines = [line if isinstance(line, str) else line.values[0] for line in LOOKS]
    names = {*all_examples()}
    looked = {
        name for name in names for line in lines if f"{line} ".startswith(f"{name.removesuffix(' list')} ")
    }
    assert names - CHANGING == looked - CHANGING


def test_the_store_refuses_what_changes(path, tries, capsys):
    for line in ("transactions abort LOG --transactional-id billing", "expire LOG", "topics create LOG new"):
        assert run(line, f"{SCHEME}://{path}") == 1
        assert "STORE_PERMISSION" in capsys.readouterr().err
        assert tries
        tries.clear()


def test_lag_with_a_checkpoint(tmp_path, tries, capsys):
    world = World(tmp_path)
    world.commit(0, world.at(4, 0))
    before = files(tmp_path)
    out, source = (f"{SCHEME}://{tmp_path / name}" for name in ("out", "in"))
    assert main(["lag", out, source, "--checkpoint", str(world.checkpoint), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["records"] for one in lines if one["kind"] == "query"] == [6, 0]
    assert tries == []
    assert files(tmp_path) == before


@needs("tables")
def test_versions_of_tables(path, capsys):
    """Their libraries take folders and buckets alone."""
    before = files(path)
    assert run("tables versions LOG --name daily", path) == 0
    assert capsys.readouterr().out
    assert files(path) == before


# -- What it costs the store ------------------------------------------------------------------------


def test_top_asks_the_store_once_for_each_refresh():
    store = bucket()
    watch = Watch(Log.open(store))
    watch.look()
    before = len(store.journal)
    for _ in range(5):
        watch.look()
    assert [one.operation for one in store.journal[before:]] == ["read"] * 5
