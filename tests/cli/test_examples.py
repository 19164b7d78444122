"""The examples in the help of each command run, on a real log, and do what they show."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.cli.usage.columns import tables_of
from spark_eos.cli.usage.examples import all_examples
from spark_eos.cli.usage.table import Columns
from spark_eos.extending import keys_added
from tests.cli.test_help import COMMANDS

EXAMPLES = all_examples()


def test_each_command_has_an_example_in_its_help(capsys):
    assert {" ".join(names) for names in COMMANDS} == {*EXAMPLES}
    for name, examples in EXAMPLES.items():
        assert main([*name.split(), "--help"]) == 0
        shown = capsys.readouterr().out
        assert shown.endswith("".join(f"  {example}\n" for example in examples))
        assert all(f"eoslog {name.removesuffix(' list')}" in example for example in examples)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A log in which there is something for each command to find."""
    folder = tmp_path_factory.mktemp("examples")
    url = str(folder / "LOG")
    admin = Admin(url)
    for name in ("scratch", "orders"):
        admin.create_topic(name, 2, {"retention.ms": 5_000_000_000})
    admin.create_topic(
        "prices",
        schema=pa.schema([("item", pa.string()), ("cents", pa.int32())]),
        config={"segment.format": "parquet"},
    )
    for transactional_id in ("billing", "hanging"):
        producer = Producer(url, {"transactional.id": transactional_id})
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(4):
            producer.send("orders", b"%d" % number, partition=number % 2)
        producer.flush()
        if transactional_id == "billing":
            producer.commit_transaction()
    with Consumer(url, {"group.id": "audit"}) as consumer:
        consumer.commit({TopicPartition("orders", at): 1 for at in (0, 1)})
    (folder / "keys.json").write_text(json.dumps({"2026-11": base64.b64encode(b"1" * 32).decode()}))
    (folder / "keys.properties").write_text("encryption.keys=file:keys.json\nencryption.key.id=2026-11\n")
    (folder / "lines.txt").write_bytes(b"one\ntwo\n")
    Admin(str(folder / "IN")).create_topic("orders")
    (folder / "checkpoint").mkdir()
    (folder / "checkpoint" / "metadata").write_text('{"id": "a-query"}')
    if "backup" in keys_added("commands"):
        assert main(["backup", url, str(folder / "backups"), "--name", "monday"]) == 0
    return folder  # fmt: skip


DONE = {
    "topics list": lambda admin: admin.list_topics(),
    "topics create": lambda admin: {"events", "sales"} <= {*admin.list_topics()},
    "topics delete": lambda admin: "scratch" not in admin.list_topics(),
    "topics alter": lambda admin: (
        len(admin.describe_topic("orders").partitions) == 4 and "shop" in admin.describe_topic("prices").schema.names
    ),
    "produce": lambda admin: (
        sum(part.end for part in admin.describe_topic("orders").partitions) >= 14
        and admin.describe_transaction("till-1").state == "CompleteCommit"
    ),
    "consume": lambda admin: sum(part.end for part in admin.describe_topic("scratch").partitions) == 8,
    "transactions abort": lambda admin: admin.describe_transaction("hanging").state == "CompleteAbort",
    "transactions force-terminate": lambda admin: admin.describe_transaction("billing").epoch == 1,
    "groups delete": lambda admin: "audit" not in admin.list_groups(),
    "groups reset-offsets": lambda admin: admin.list_group_offsets("audit")[TopicPartition("orders", 0)].offset == 0,
    "configs": lambda admin: admin.describe_topic("orders").config["retention.ms"] == "3600000",
    "encryption rotate": lambda admin: any(
        path.read_bytes().startswith(b"EOSENC") for path in Path(admin._url, "data").rglob("*.arrow")
    ),
    "delete-records": lambda admin: admin.describe_topic("orders").partitions[0].start == 1,
}  # fmt: skip
"""What shows that the examples of a command did something."""


SERVERS = {
    "ui",
    *(
        "mirror in",
        "mirror offsets",
        "mirror out",
        "mirror sent",
        "mirror wait",
        "mirror group",
        "mirror checkpoint",
        "mirror check",
    ),
}
"""Commands that do not end by themselves, or need a server: tests of their extensions run them."""


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in SERVERS])
def test_the_examples_run(name, prepared, tmp_path, monkeypatch, capfdbinary):
    if name in {"tables publish", "tables versions", "tables drop"}:
        pytest.importorskip("deltalake")
    folder = tmp_path / "here"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    if name in {"tables publish", "tables versions", "tables drop"}:
        assert (
            main(["tables", "create", "LOG", "--name", "daily", "--topic", "prices", "--format", "delta"])
            == 0
        )
    printed = set()
    names = Columns.names.fget
    monkeypatch.setattr(Columns, "names", property(lambda one: printed.add(one.command) or names(one)))
    for example in EXAMPLES[name]:
        run(example, capfdbinary)
    assert printed <= {table.command for table in tables_of(f"eoslog {name}")}, "its help has these columns"
    done = DONE.get(name)
    assert done is None or done(Admin(str(folder / "LOG")))


def run(line, capture):
    """A line of a shell, in which eoslog runs in this process: a process takes half a second to start."""
    data = b""
    for part in re.split(r" \| ", line):
        if not part.startswith("eoslog "):
            data = subprocess.run(["sh", "-c", part], input=data, capture_output=True, check=True).stdout
            continue
        words = subprocess.run(["sh", "-c", f"printf '%s\\0' {part}"], capture_output=True, check=True).stdout
        arguments = words.decode().split("\0")[1:-1]
        if arguments[0] == "produce" and "--file" not in arguments:
            Path("piped").write_bytes(data)
            arguments += ["--file", "piped"]
        capture.readouterr()
        assert main(arguments) == 0, line
        data = capture.readouterr().out
