"""``eoslog topics alter``."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from spark_eos import Admin
from spark_eos.cli.command import main


@pytest.fixture
def url(log_url):
    columns = {"id": pa.int32(), "a b": pa.string(), "s": pa.struct([("x", pa.int8()), ("y", pa.int8())])}
    Admin(log_url).create_topic("t", schema=pa.schema(columns))
    return log_url


def test_everything_is_altered_at_once(url, capsys):
    arguments = [
        "--add-column",
        "note string",
        "--add-column",
        "`s`.z array<int>",
        "--widen-column",
        "id bigint",
    ]
    arguments += ["--rename-column", "a b=ab", "--drop-column", "s.x", "--partitions", "3"]
    arguments += ["--config", "retention.ms=1000", "segment.bytes=10000", "--json"]
    assert main(["topics", "alter", url, "t", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(column["name"], column["type"]) for column in found["columns"]] == [
        ("id", "int64"),
        ("ab", "string"),
        ("s", "struct<y: int8, z: list<element: int32>>"),
        ("note", "string"),
    ]
    assert found["config"] == {"retention.ms": "1000", "segment.bytes": "10000"}
    assert len(found["partitions"]) == 3
    assert main(["topics", "alter", url, "t", "--config", "retention.ms="]) == 0
    assert "note: string" in capsys.readouterr().out
    assert Admin(url).describe_topic("t").config == {"segment.bytes": "10000"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--add-column", "id int"], "eoslog: topic 't' has a column 'id' already"),
        (["--widen-column", "id tinyint"], "eoslog: topic 't': column 'id' is int32 and cannot become int8"),
        (["--drop-column", "idd"], "did you mean 'id'?"),
        (["--add-column", "note nothing"], "eoslog: 'nothing' is no type of a column"),
    ],
)
def test_what_is_refused(url, capsys, arguments, told):
    assert main(["topics", "alter", url, "t", *arguments]) == 1
    assert told in capsys.readouterr().err
    assert len(Admin(url).describe_topic("t").schema) == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ["--add-column", "note"],
        ["--rename-column", "id"],
        ["--config", "x"],
        ["--add-column", "note int", "--add-column", "note string"],
        ["--rename-column", "id=a", "--rename-column", "id=b"],
        ["--config", "retention.ms=1", "retention.ms=2"],
    ],
)
def test_wrong_usage(url, capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["topics", "alter", url, "t", *arguments])
    assert stopped.value.code == 2
    assert f"Invalid value for '{arguments[0]}'" in capsys.readouterr().err


def test_topics_are_listed_without_the_word(url, capsys):
    assert main(["topics", url]) == main(["topics", "list", url]) == 0
    first, second = capsys.readouterr().out.split("TOPIC")[1:]
    assert first == second
