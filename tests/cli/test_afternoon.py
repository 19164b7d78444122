"""An operator's afternoon: logs in trouble. What the commands print leads to the cause and to the cure.

Each test begins with a command, and goes on with nothing but what was printed: commands are run as they stand, pages
are those that were named, and the commands on them are run with the names that were shown.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import time
import uuid
from contextlib import ExitStack, suppress
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.errors import ProducerFencedError, StoreFullError
from spark_eos.extending import keys_added
from spark_eos.log.clock import SYSTEM
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.protocol.actions import RaiseStagingFloor
from tests.expiration import no_expiration
from tests.monitoring.micro_batches import micro_batch
from tests.needing import needs
from tests.security.roles import POLICIES, policy
from verification.cloud_servers import temporary

DOCS = Path(__file__).parents[2] / "docs"
PAGES = "https://github.com/spark-eos/spark-eos/blob/main/docs/"
HOURS_MS = 2 * 3_600_000

ADDED_LOOKS = [
    line for line in ("top --json --count 1", "metrics") if line.partition(" ")[0] in keys_added("commands")
]
"""How extensions that are here look at a log."""


class Terminal:
    """Runs lines as an operator types them."""

    def __init__(self, capfd):
        self._capfd = capfd

    def run(self, line, code=0):
        """What ``line`` prints, and its errors after that."""
        program, *arguments = shlex.split(line)
        self._capfd.readouterr()
        if program == "cp":
            shutil.copyfile(*arguments)
            return ""
        assert program == "eoslog"
        try:
            ended = main(arguments)
        except SystemExit as error:
            ended = error.code
        shown = self._capfd.readouterr()
        assert ended == code, shown
        return shown.out + shown.err

    def troubles(self, url, more="", code=1):
        """What `eoslog status` prints, and its troubles by name."""
        shown = self.run(f"eoslog status {url}{more}", code)
        found = {}
        for block in shown.split("\n\n")[1:-1]:
            head, text, *lines = block.splitlines()
            level, name = head.split(": ")
            parts = {"level": level, "text": text.strip(), "look": [], "do": [], "cure": [], "page": []}
            for one in lines:
                kind, _, rest = one.strip().partition(":")
                parts[kind].append(rest.strip())
            found[name] = parts
        return found


@pytest.fixture
def terminal(capfd):
    return Terminal(capfd)


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


def opened(stack, log, name, client="", **config):
    settings = {"transactional.id": name, "client.id": client or name, **config}
    producer = Producer(log, settings)

    def close():
        with suppress(ProducerFencedError):
            producer.close(0)

    stack.callback(close)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"x", partition=0)
    producer.flush()
    return producer


def send(log, count, *, ago_ms=0, topic="orders"):
    with Producer(log, {"client.id": "shop", "linger.ms": 60_000}) as producer:  # One batch.
        at_ms = int(time.time() * 1000) - ago_ms
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=0, timestamp_ms=at_ms)
        producer.flush()


def page_of(trouble):
    """The text of the page that a trouble names."""
    (url,) = trouble["page"]
    assert url.startswith(PAGES)
    name, _, anchor = url.removeprefix(PAGES).partition("#")
    text = (DOCS / name).read_text("utf-8")
    if anchor:
        titles = {one.lower().replace(" ", "-") for one in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
        assert anchor in titles
    return text


def lines_of(page):
    """The commands in the blocks of a page."""
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", page, re.DOTALL | re.MULTILINE)
    return [line.strip() for block in blocks for line in block.splitlines()]


def filled(line, **names):
    return " ".join(names.get(word, word) for word in line.split())


def test_help_says_where_to_begin(terminal):
    shown = terminal.run("eoslog --help")
    assert "Begin with: eoslog status LOG" in shown
    (page,) = re.findall(r"docs/(\S+)", shown)
    assert (DOCS / page).is_file()


# -- A hanging transaction --------------------------------------------------------------------------


def test_a_hanging_transaction(terminal, stack, log_url):
    log = Log.create(log_url)
    Admin(log).create_topic("orders", 2)
    send(log, 5)
    Admin(log).alter_group_offsets("billing", {TopicPartition("orders", 0): 2})
    with no_expiration():
        opened(stack, log, "till 7", **{"transaction.timeout.ms": 1})
        send(log, 3)

    assert "HELD-BACK" in terminal.run(f"eoslog lag {log_url}")

    trouble = terminal.troubles(log_url)["hanging transaction"]
    assert trouble["level"] == "CRITICAL"
    assert "transactional.id 'till 7'" in trouble["text"]
    assert (
        "holds back 4 offsets of orders-0 from offset 5; group 'billing' read no further" in trouble["text"]
    )
    assert "EoslogHangingTransaction" in page_of(trouble)
    (look,), (cure,) = trouble["look"], trouble["cure"]
    assert "Ongoing" in terminal.run(look)
    assert "is CompleteAbort" in terminal.run(cure)
    assert "hanging transaction" not in terminal.troubles(log_url, code=0)
    shown = terminal.run(f"eoslog consume {log_url} orders --isolation-level read_committed")
    assert shown.split()[-1] != "x"
    assert len([line for line in shown.splitlines() if line.isdecimal()]) == 8


@needs("metrics", "ui")
def test_top_and_metrics_show_a_hanging_transaction(terminal, stack, log_url):
    log = Log.create(log_url)
    Admin(log).create_topic("orders", 2)
    with no_expiration():
        opened(stack, log, "till 7", **{"transaction.timeout.ms": 1})
        send(log, 1)
    (late,) = json.loads(terminal.run(f"eoslog top {log_url} --json --count 1"))["transactions"]
    assert late["is_overdue"]
    assert "eoslog_transactions_late" in terminal.run(f"eoslog metrics {log_url}")


def test_a_transaction_that_is_slow_and_not_past_its_timeout(terminal, stack, log_url):
    log = Log.create(log_url)
    Admin(log).create_topic("orders", 1)
    opened(stack, log, "teller", **{"transaction.timeout.ms": 900_000})
    assert terminal.troubles(log_url, code=0) == {}
    Admin(log).alter_log({"health.transaction.max.ms": "1"})
    trouble = terminal.troubles(log_url)["held back"]
    assert "within its timeout" in trouble["text"]
    assert "EoslogLsoStuck" in page_of(trouble)


# -- Readers that lag -------------------------------------------------------------------------------


def committed_late(log):
    """From now on it is some minutes later for `eoslog status`, and for nothing else."""
    Admin(log).alter_log({"health.lag.max.ms": "1"})
    while SYSTEM.now_ms() <= log.follow().timestamp_ms + 1:
        pass


def test_a_query_that_has_ended(terminal, log_url):
    log = Log.create(log_url)
    Admin(log).create_topic("orders", 1)
    send(log, 10, ago_ms=HOURS_MS)
    micro_batch(log, "orders", 4)
    committed_late(log)

    trouble = terminal.troubles(log_url)["query behind"]
    assert trouble["text"].startswith(
        "query 'copy' is 6 records and 2 h behind in orders-0; it has committed offsets"
    )
    assert "start it again on its checkpoint" in trouble["do"][0]
    assert "EoslogQueryBehind" in page_of(trouble)
    for look in trouble["look"]:
        assert "copy" in terminal.run(look)
    micro_batch(log, "orders", 10, first=4, number=1)  # The query was started again.
    assert terminal.troubles(log_url, code=0) == {}


def test_a_group_without_consumers(terminal, log_url):
    log = Log.create(log_url)
    Admin(log).create_topic("orders", 1)
    send(log, 10, ago_ms=HOURS_MS)
    Admin(log).alter_group_offsets("billing", {TopicPartition("orders", 0): 4})
    committed_late(log)

    trouble = terminal.troubles(log_url)["group behind"]
    assert "is 6 records and 2 h behind in orders-0" in trouble["text"]
    assert "has no members" in trouble["text"]
    assert "A group that is done with is deleted: eoslog groups delete" in trouble["do"][0]
    for look in trouble["look"]:
        terminal.run(look)
    shown = terminal.run(f"eoslog consume {log_url} orders --group billing --max-messages 6")
    assert shown.split()[:6] == ["4", "5", "6", "7", "8", "9"]
    assert terminal.troubles(log_url, code=0) == {}


def test_a_group_that_retention_has_passed(terminal, log_url):
    log = Log.create(log_url)
    Admin(log).create_topic("orders", 2)
    send(log, 10)
    with Producer(log) as producer:
        for _ in range(3):
            producer.send("orders", b"x", partition=1)
    Admin(log).alter_group_offsets(
        "billing", {TopicPartition("orders", 0): 1, TopicPartition("orders", 1): 2}
    )
    Admin(log).delete_records({TopicPartition("orders", 0): 4})
    trouble = terminal.troubles(log_url)["records lost"]
    assert "group 'billing' has not read 3 deleted offsets of orders-0" in trouble["text"]
    assert "EoslogRecordsLost" in page_of(trouble)
    for line in (*trouble["look"], *trouble["cure"]):
        terminal.run(line)
    assert terminal.troubles(log_url, code=0) == {}
    offsets = {at.partition: one.offset for at, one in Admin(log).list_group_offsets("billing").items()}
    assert offsets == {0: 4, 1: 2}, "nothing else is read again"


# -- A full disk ------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MB."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system")
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)]
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted on this machine")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def values(url):
    with Consumer(url, {"isolation.level": "read_committed"}) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([TopicPartition("orders", 0)])[TopicPartition("orders", 0)]
        found = []
        while consumer.position(TopicPartition("orders", 0)) < end:
            found += [record.value for record in consumer.poll(timeout_ms=1000)]
    return found


def test_a_full_disk(terminal, small_disk, tmp_path):
    url = str(small_disk / "log")
    terminal.run(f"eoslog topics create {url} orders --config file.delete.delay.ms=0")
    foreign = small_disk / "a-core-dump"
    with Producer(url, {"client.id": "shop"}) as producer:
        acknowledged = [b"first"]
        producer.send("orders", b"first").result()
        foreign.write_bytes(bytes(1_700_000))
        with suppress(StoreFullError):
            for number in range(100):
                value = b"%d" % number + os.urandom(50_000)
                producer.send("orders", value).result()
                acknowledged.append(value)
        assert len(acknowledged) < 100
    lines = tmp_path / "lines"
    lines.write_text("one more\n")
    with suppress(OSError), foreign.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    error = terminal.run(f"eoslog produce {url} orders --file {lines}", 1)
    assert "No space left on device" in error
    assert "nothing was written" in error
    (code,) = re.findall(r"\[(\w+)\]$", error.strip())
    errors = (DOCS / "reference/error-codes.md").read_text("utf-8")
    assert "](../runbooks/disk-full.md)" in errors.partition(f"### {code}\n")[2].partition("###")[0]

    # All that looks goes on.
    assert "wrong: 0" in terminal.run(f"eoslog verify {url}")
    for line in ADDED_LOOKS:
        command, *options = line.split()
        assert '"orders"' in terminal.run(shlex.join(["eoslog", command, url, *options]))
    assert values(url) == acknowledged
    trouble = terminal.troubles(url)["disk full"]
    assert trouble["level"] == "CRITICAL"
    page = page_of(trouble)
    for look in trouble["look"]:
        terminal.run(look)

    foreign.unlink()  # "free space that the log does not use"
    assert "free space that the log does not use" in trouble["do"][0]
    assert terminal.troubles(url, code=0) == {}
    assert "1 record written" in terminal.run(f"eoslog produce {url} orders --file {lines}")
    assert values(url) == [*acknowledged, b"one more"]
    assert "wrong: 0" in terminal.run(f"eoslog verify {url}")

    # Then what the log does not need is deleted, by the page's commands.
    used = shutil.disk_usage(small_disk).used
    terminal.run(f"eoslog delete-records {url} --to orders:0={len(acknowledged)}")
    assert "data/orders" in terminal.run(trouble["look"][0])
    for line in lines_of(page.partition("## What to do")[2]):
        terminal.run(filled(line, LOG=url, TOPIC="orders"))
    assert shutil.disk_usage(small_disk).used < used
    assert values(url) == [b"one more"]


def test_vacuum_on_a_disk_without_a_byte(terminal, small_disk):
    """It deletes what needs no entry first, and says what to do where that is not enough."""
    url = str(small_disk / "log")
    terminal.run(f"eoslog topics create {url} orders --config file.delete.delay.ms=0")
    log = Log.open(url)
    left = [leave(log, 300_000)]
    for _ in range(2):  # As a vacuum does that ended before the running readers had.
        log.commit(lambda state: (RaiseStagingFloor(state.seq + 1),))
    left.append(leave(log, 300_000))
    Admin(log).create_topic("later")

    def fill():
        with suppress(OSError), (small_disk / "a-core-dump").open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    fill()
    terminal.run(f"eoslog vacuum {url} --min-age 0")
    assert [Path(url, name).exists() for name in left] == [False, False]  # The first made room for the entry.
    (small_disk / "a-core-dump").unlink()
    log.follow()
    left = [leave(log, 300_000)]
    Admin(log).create_topic("last")
    fill()
    error = terminal.run(f"eoslog vacuum {url} --min-age 0", 1)
    assert "Nothing was deleted: an entry has to be written first" in error
    assert "[STORE_FULL]" in error
    assert Path(url, left[0]).exists()


def leave(log, size):
    """Stage a file that is never committed."""
    with log.stage(log.topic("orders")) as writer:
        writer.append(pa.table({"value": [os.urandom(size)]}), 0)
        return writer.finish()[0].file.name


# -- A damaged file ---------------------------------------------------------------------------------


@pytest.fixture
def backed_up(log_url, tmp_path, terminal):
    """A log, and its backup."""
    log = Log.create(log_url)
    Admin(log).create_topic("orders", 1)
    for _ in range(3):
        send(log, 10)
    terminal.run(f"eoslog backup {log_url} {tmp_path / 'backups'} --name monday")
    return log_url


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def put_back(terminal, url, name, folder):
    """Follow the page: restore a backup elsewhere, and copy the file from there."""
    names = {
        "LOG": url,
        "BACKUPS": str(folder / "backups"),
        "RESTORED": str(folder / "restored"),
        "NAME": "monday",
        "RESTORED/FILE": str(folder / "restored" / name),
        "LOG/FILE": f"{url}/{name}",
    }
    page = (DOCS / "runbooks/damaged-file.md").read_text("utf-8")
    steps = [line for line in lines_of(page) if "RESTORED" in line]
    assert [step.split()[0] for step in steps] == ["eoslog", "cp"]
    for step in steps:
        terminal.run(filled(step, **names))


@needs("backup")
def test_a_damaged_data_file(terminal, backed_up, tmp_path):
    path = sorted(Path(backed_up, "data").rglob("*.arrow"))[1]
    damage(path)
    name = str(path.relative_to(backed_up))
    error = terminal.run(f"eoslog consume {backed_up} orders", 1)
    assert name in error
    assert error.endswith("[CORRUPT_RECORD]\n")
    errors = (DOCS / "reference/error-codes.md").read_text("utf-8")
    section = errors.partition("### CORRUPT_RECORD\n")[2].partition("###")[0]
    assert "`eoslog verify URL`" in section
    assert "](../runbooks/damaged-file.md)" in section

    found = terminal.run(f"eoslog verify {backed_up}", 1)
    (line,) = [one for one in found.splitlines() if one.startswith("wrong: data/")]
    assert line.startswith(f"wrong: {name}: ")
    assert "(orders-0, offsets 10 to 19)" in line
    assert "put the file back from a copy" in line
    assert f"{PAGES}runbooks/damaged-file.md" in found
    put_back(terminal, backed_up, name, tmp_path)
    assert "wrong: 0" in terminal.run(f"eoslog verify {backed_up}")
    assert len(terminal.run(f"eoslog consume {backed_up} orders").split("\n")) > 30


@needs("backup")
def test_a_damaged_file_of_which_there_is_no_copy(terminal, backed_up):
    path = sorted(Path(backed_up, "data").rglob("*.arrow"))[1]
    damage(path)
    Admin(backed_up).alter_group_offsets("billing", {TopicPartition("orders", 0): 5})
    group = f"eoslog consume {backed_up} orders --group billing --timeout-ms 0"
    assert "CORRUPT_RECORD" in terminal.run(group, 1)
    found = terminal.run(f"eoslog verify {backed_up}", 1)
    ((topic, number, last),) = re.findall(r"\((\w+)-(\d+), offsets \d+ to (\d+)\)", found)
    page = (DOCS / "runbooks/damaged-file.md").read_text("utf-8")
    (step,) = [line for line in lines_of(page) if "reset-offsets" in line]
    place = {"TOPIC:PARTITION": f"{topic}:{number}", "OFFSET": str(int(last) + 1)}
    terminal.run(filled(step, LOG=backed_up, GROUP="billing", **place))
    shown = terminal.run(f"{group} --max-messages 10")
    assert shown.split()[:10] == [str(number) for number in range(10)]


@needs("backup")
def test_a_damaged_entry(terminal, backed_up, tmp_path):
    path = Path(backed_up, "_log", "00000000000000000003.avro")
    damage(path)
    for line in ("lag", *ADDED_LOOKS, "consume", "produce"):
        command, *options = line.split()
        topic = ["orders"] if command in {"consume", "produce"} else []
        file = ["--file", os.devnull] if command == "produce" else []
        error = terminal.run(shlex.join(["eoslog", command, backed_up, *topic, *options, *file]), 1)
        assert str(path) in error
    trouble = terminal.troubles(backed_up)["CORRUPT_RECORD"]
    assert str(path) in trouble["text"]
    assert page_of(trouble).startswith("# EoslogDamage: ")
    (look,) = trouble["look"]
    (name,) = re.findall(r"^wrong: (\S+): ", terminal.run(look, 1), re.MULTILINE)
    put_back(terminal, backed_up, name, tmp_path)
    assert terminal.troubles(backed_up, code=0) == {}
    assert "wrong: 0" in terminal.run(look)


# -- A zombie ---------------------------------------------------------------------------------------


def test_a_zombie(terminal, stack, log_url):
    log = Log.create(log_url)
    Admin(log).create_topic("orders", 1)
    zombie = opened(stack, log, "payer", "payer-on-a")
    opened(stack, log, "payer", "payer-on-b").commit_transaction()
    with pytest.raises(ProducerFencedError) as caught:
        zombie.commit_transaction()
    assert "'payer'" in str(caught.value)
    errors = (DOCS / "reference/error-codes.md").read_text("utf-8")
    section = errors.partition(f"### {caught.value.code}\n")[2].partition("###")[0]
    (look,) = re.findall(r"`(eoslog audit [^`]*)`", section)
    shown = terminal.run(filled(look, URL=log_url, ID="payer")).splitlines()
    assert len(shown) == 2
    assert "payer-on-b" in shown[1]

    trouble = terminal.troubles(log_url, code=0)["fenced"]
    assert trouble["level"] == "NOTE"
    assert "'payer' was fenced once, by 'payer-on-b'" in trouble["text"]
    assert "zombie" in page_of(trouble)
    assert terminal.run(trouble["look"][0]).splitlines() == shown


def test_two_programs_with_one_id(terminal, stack, log_url):
    log = Log.create(log_url)
    Admin(log).create_topic("orders", 1)
    for number in range(4):
        opened(stack, log, "payer", f"payer-on-{'ab'[number % 2]}")
    trouble = terminal.troubles(log_url)["fenced"]
    assert trouble["level"] == "WARNING"
    assert re.search("was fenced 3 times in .*, by 'payer-on-a', 'payer-on-b', last ", trouble["text"])
    (advice,) = trouble["do"]
    assert advice.startswith("if several programs have this id, give each its own; a program that crashes")


# -- A wrong policy ---------------------------------------------------------------------------------

RIGHTS = {
    "s3:ListBucket": ("reader", "topics {}", "s3:ListBucket on the bucket"),
    "s3:GetObject": ("reader", "topics {}", "s3:GetObject on it"),
    "s3:PutObject": ("writer", "produce {} orders --file FILE", "s3:PutObject on it"),
    "s3:DeleteObject": ("maintainer", "vacuum {} --min-age 0", "s3:DeleteObject on it"),
}


@pytest.mark.parametrize("right", RIGHTS)
def test_a_right_that_is_missing(right, terminal, minio_server, tmp_path, monkeypatch):
    monkeypatch.setattr(Vacuum, "_due_in", lambda *_: 0.0)  # The minute for running readers has passed.
    path = uuid.uuid4().hex[:8]
    url = f"{minio_server.url}/{path}"
    log = Log.create(url, settings=minio_server.settings)
    Admin(log).create_topic("orders", 1, config={"file.delete.delay.ms": 0})
    send(log, 3)
    Admin(log).delete_records({TopicPartition("orders", 0): 3})
    role, line, told = RIGHTS[right]
    lines = tmp_path / "lines"
    lines.write_text("one\n")
    line = f"eoslog {line.format(url)} --command-config {tmp_path / 'config'}".replace("FILE", str(lines))

    def give(document):
        settings = temporary(minio_server, document)
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        (tmp_path / "config").write_text(text)

    wrong = policy(role, path)
    for statement in wrong["Statement"]:
        statement["Action"] = [one for one in statement["Action"] if one != right] or ["s3:GetBucketLocation"]
        if statement["Action"] == ["s3:GetBucketLocation"]:
            statement["Resource"] = ["arn:aws:s3:::bucket"]
            statement.pop("Condition", None)
    give(wrong)
    error = terminal.run(line, 1)
    assert "[STORE_PERMISSION]" in error
    assert told in error
    (page,) = re.findall(r"docs/([a-z/-]+\.md)", error)
    assert f"`s3/{role}.json`" in (DOCS / page).read_text("utf-8")
    assert (POLICIES / "s3" / f"{role}.json").is_file()
    if role == "reader":
        config = f" --command-config {tmp_path / 'config'}"
        trouble = terminal.troubles(url, config)["STORE_PERMISSION"]
        assert told in trouble["text"]
        assert f"`s3/{role}.json`" in page_of(trouble)

    give(policy(role, path))
    terminal.run(line)
