"""``eoslog produce``: lines to records, what is claimed after errors and signals, and formats."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.cli.console import lines
from spark_eos.cli.console.produce import _input
from spark_eos.cli.progress import Progress
from spark_eos.errors import InvalidRecordError
from spark_eos.log.schemas.type_names import parse_type
from tests.cli.console import Here, eoslog


@pytest.fixture
def here(tmp_path, capfdbinary):
    return Here(tmp_path, capfdbinary)


def records(url, topic, **settings):
    with Consumer(url, settings) as consumer:
        consumer.assign([TopicPartition(topic, at) for at in consumer.partitions_for_topic(topic)])
        consumer.seek_to_beginning()
        found = []
        while batch := consumer.poll():
            found += batch
    return found


def values(url, topic, **settings):
    return [record.value for record in records(url, topic, **settings)]


def test_lines_of_standard_input(log_url, here):
    told = eoslog("produce", log_url, "t", stdin=b"one\n\n\xff\x00two\r\nlast")
    assert told.stdout == b"4 records written to topic t; the topic is new\n"
    assert told.stderr == b""
    assert values(log_url, "t") == [b"one", b"", b"\xff\x00two\r", b"last"]
    for topic in ("t", "not-there"):
        assert here.produce(log_url, topic, b"") == b"0 records written to topic %s\n" % topic.encode()


def shell(line):
    return subprocess.run(["bash", "-c", line], capture_output=True, check=False)


@pytest.mark.deep
@pytest.mark.parametrize("more", ["", "--json", "--transactional-id x"])
def test_an_output_that_is_full(log_url, more):
    """The records are in the log, and the message says so: a caller that only sees a failure would send them again."""
    done = shell(f"printf 'a\nb\n' | {sys.executable} -m spark_eos produce {log_url} t {more} > /dev/full")
    assert done.returncode == 1
    assert done.stderr == (
        b"eoslog: the output cannot be written: [Errno 28] No space left on device; 2 records written to topic t; "
        b"the topic is new\n"
    )
    assert values(log_url, "t") == [b"a", b"b"]


def test_an_output_that_is_full_says_that_the_records_are_in_the_log(log_url, capfd, tmp_path, monkeypatch):
    (tmp_path / "lines").write_bytes(b"a\nb\n")
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["produce", log_url, "t", "--file", str(tmp_path / "lines")]) == 1
        assert "No space left on device; 2 records written to topic t" in capfd.readouterr().err
        monkeypatch.undo()
        with suppress(OSError):
            full.close()


def test_a_person_is_told_how_the_input_ends(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True, fileno=lambda: 0))
    with _input(None) as descriptor:
        assert descriptor == 0
    assert "Ctrl-D ends the input" in capsys.readouterr().err


def test_an_output_that_is_closed(log_url):
    """Nothing is written then: the command could not say what became of it."""
    Admin(log_url).create_topic("t")
    done = shell(f"echo a | {sys.executable} -m spark_eos produce {log_url} t >&-")
    assert done.returncode == 1
    assert b"eoslog: standard output is closed" in done.stderr
    assert values(log_url, "t") == []


def test_a_reader_of_the_output_that_has_ended(log_url):
    line = f"echo a | {sys.executable} -m spark_eos produce {log_url} t | true; exit ${{PIPESTATUS[1]}}"
    done = shell(line)
    assert (done.returncode, done.stderr) == (0, b"")
    assert values(log_url, "t") == [b"a"]


def test_keys_headers_and_null_markers(log_url, here):
    text = b"a:1,b:N,c:x:y\tkey\tvalue\twith tab\n\tN\tN\nN\t\t\n"
    properties = ("parse.key=true", "parse.headers=true", "null.marker=N")
    here.produce(log_url, "t", text, "--property", *properties)
    assert [(one.key, one.value, list(one.headers)) for one in records(log_url, "t")] == [
        (b"key", b"value\twith tab", [("a", b"1"), ("b", None), ("c", b"x:y")]),
        (None, None, []),
        (b"", b"", []),
    ]
    here.produce(
        log_url,
        "u",
        b"k|v\nnokey\n",
        "--reader-property",
        "parse.key=true",
        "key.separator=|",
        "ignore.error=true",
    )
    assert [(one.key, one.value) for one in records(log_url, "u")] == [(b"k", b"v"), (None, b"nokey")]
    tolerant = ("--property", "parse.headers=true", "ignore.error=true")
    here.produce(log_url, "w", b"a:1,b\tvalue\nno headers\n", *tolerant)
    assert [(one.value, list(one.headers)) for one in records(log_url, "w")] == [
        (b"value", [("a", b"1"), ("b", None)]),
        (b"no headers", []),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "properties", "told"),
    [
        (b"k\tv\nvalue\n", ["parse.key=true"], "line 2: no key separator '\\t'; no line is in the log"),
        (b"a=1\tv\n", ["parse.headers=true"], "line 1: no header key separator ':' in 'a=1'"),
        (b"v\n", ["parse.headers=true"], "line 1: no headers delimiter '\\t'"),
        (b"\xff:1\tv\n", ["parse.headers=true"], "line 1: the name of header '\ufffd' is not UTF-8"),
    ],
)
def test_a_line_that_cannot_be_read(log_url, here, data, properties, told):
    assert told in here.produce(log_url, "t", data, "--property", *properties, code=1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--property", "parse.keys=true"], "did you mean parse.key?"),
        (["--property", "parse.key=yes"], "expected true or false"),
        (["--property", "value.deserializer=x"], "unknown property 'value.deserializer'"),
        (["--property", "key.separator="], "key.separator cannot be empty"),
        (["--producer-property", "linger"], "is not NAME=VALUE"),
        (["--file", "/none/there"], "cannot be read: No such file or directory"),
    ],
)
def test_wrong_usage(log_url, capsys, arguments, told):
    with pytest.raises(SystemExit) as stopped:
        main(["produce", log_url, "t", *arguments])
    assert stopped.value.code == 2
    assert told in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--producer-property", "lingr.ms=5"], "did you mean linger.ms"),
        (["--producer-property", "auto.create.topics.enable=false"], "is not a log"),
        (["--format", "avro"], "are not Avro"),
        (["--format", "json", "--property", "parse.key=true"], "--property is for lines of text"),
    ],
)
def test_what_is_refused(log_url, here, arguments, told):
    assert told in here.produce(log_url, "t", b"x\n", *arguments, code=1)


def test_a_partition_and_a_setting(log_url, here):
    Admin(log_url).create_topic("t", 3)
    here.produce(log_url, "t", b"a\nb\n", "--partition", "2", "--producer-property", "compression.type=zstd")
    assert {one.partition for one in records(log_url, "t")} == {2}
    refused = here.produce(log_url, "t", b"a\n", "--partition", "3", code=1)
    assert "has no partition 3" in refused
    assert refused.endswith("; no line is in the log [UNKNOWN_TOPIC_OR_PARTITION]\n")
    placed = json.loads(here.produce(log_url, "t", b"c\n", "--partition", "2", "--json"))
    assert placed == {"topic": "t", "partition": 2, "offset": 2, "records": 1}


def test_an_error_names_the_line_and_what_is_in_the_log(log_url):
    """The first line is there before the second one comes: it is written, and said to be."""
    Admin(log_url).create_topic("t", config={"max.message.bytes": 100})
    process = start("produce", log_url, "t")
    process.stdin.write(b"good\n")
    process.stdin.flush()
    wait_for(lambda: values(log_url, "t") == [b"good"])
    _, error = process.communicate(b"good too\n" + b"x" * 101 + b"\ngood again\n")
    assert process.returncode == 1
    assert b"line 3" in error
    assert b"101 bytes, more than the limit of 100" in error
    assert error.strip().endswith(b"line 1 is in the log, the others not [RECORD_TOO_LARGE]")
    assert values(log_url, "t") == [b"good"]


def start(*arguments):
    command = [sys.executable, "-m", "spark_eos", *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)


def wait_for(condition):
    """Until it holds; a test that waits in vain is ended by its timeout."""
    while True:
        try:
            if condition():
                return
        except Exception:  # noqa: BLE001  (the log or topic may not be there yet)
            pass
        time.sleep(0.02)


def test_all_lines_in_one_transaction(log_url, here):
    here.produce(log_url, "t", b"a\n", "--transactional-id", "me")
    here.produce(log_url, "t", b"b\n", "--producer-property", "transactional.id=me")
    assert values(log_url, "t", isolation_level="read_committed") == [b"a", b"b"]
    error = here.produce(
        log_url, "t", b"c\td\ne", "--transactional-id", "me", "--property", "parse.key=true", code=1
    )
    assert "line 2: no key separator" in error
    assert error.endswith("the transaction is not committed, no line is in the log [INVALID_RECORD]\n")
    assert values(log_url, "t") == [b"a", b"b"]
    assert Admin(log_url).list_transactions()[0].state == "CompleteCommit"


@pytest.mark.deep("transaction0-SIGINT", "transaction1-SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("transaction", [(), ("--transactional-id", "me")])
def test_a_signal(log_url, number, transaction):
    Admin(log_url).create_topic("t")
    process = start("produce", log_url, "t", *transaction)
    process.stdin.write(b"one\n")
    process.stdin.flush()
    if transaction:
        wait_for(lambda: Admin(log_url).describe_transaction("me"))
    else:
        wait_for(lambda: values(log_url, "t"))
    process.send_signal(number)
    _, error = process.communicate()
    assert process.returncode == 128 + number
    account = (
        "the transaction is not committed, no line is in the log"
        if transaction
        else "line 1 is in the log, the others not"
    )
    assert error.decode() == f"eoslog: stopped by {number.name}: {account}\n"
    assert values(log_url, "t") == ([] if transaction else [b"one"])  # fmt: skip


def test_an_input_that_cannot_be_read(log_url, tmp_path):
    code = f"exec {sys.executable} -m spark_eos produce {log_url} t 0>{tmp_path / 'new'}"
    done = subprocess.run(["bash", "-c", code], capture_output=True, check=False)
    assert done.returncode == 1
    told = b"eoslog: the input cannot be read: Bad file descriptor; no line is in the log"
    assert done.stderr.startswith(told)


def test_a_closed_standard_input(log_url):
    code = f"exec {sys.executable} -m spark_eos produce {log_url} t <&-"
    done = subprocess.run(["bash", "-c", code], capture_output=True, check=False)
    assert done.returncode == 1
    assert b"standard input is closed: give --file" in done.stderr


AS_A_USER = ("setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner") if os.geteuid() == 0 else ()
"""For root the modes of files do not count, unless this capability is gone."""


@pytest.mark.deep
@pytest.mark.skipif(bool(AS_A_USER) and shutil.which("setpriv") is None, reason="root may write everywhere")
def test_a_log_that_may_only_be_read(tmp_path, here):
    url = tmp_path / "log"
    here.produce(url, "t", b"a\n")
    folders = [url, *(path for path in url.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        refused = eoslog("produce", url, "t", stdin=b"b\n", code=1, prefix=AS_A_USER).stderr
        assert b"Permission denied" in refused
        assert refused.endswith(b"; no line is in the log [STORE_PERMISSION]\n")
        assert eoslog("consume", url, "t", prefix=AS_A_USER).stdout == b"a\n"
        assert eoslog("get-offsets", url, prefix=AS_A_USER).stdout == b"t:0:1\n"
    finally:
        for folder in folders:
            folder.chmod(stat.S_IRWXU)


COLUMNS = {
    "b": ("boolean", [True, False]),
    "i8": ("tinyint", [-128, 127]),
    "i64": ("bigint", [-(2**63), 2**63 - 1]),
    "f32": ("float", [1.5, "NaN"]),
    "f64": ("double", [0.1, "-Infinity"]),
    "dec": ("decimal(38,10)", ["1234567890123456789012345678.0123456789", "-0.5000000000"]),
    "s": ("string", ["snow \u2603 \U0001f600\n\t\x00", ""]),
    "bin": ("binary", ["text", {"base64": "/wA="}]),
    "dt": ("date", ["2026-11-24", "0001-01-01"]),
    "tm": ("time", ["23:59:59.123456789", "00:00:00.25"]),
    "ts": ("timestamp", ["2026-11-24T01:02:03.000004Z", "1969-12-31T23:59:59Z"]),
    "tn": ("timestamp_ntz", ["2026-11-24T01:02:03.500000", "9999-12-31T23:59:59.999999"]),
    "l": ("array<int>", [[1, None, 3], []]),
    "lt": ("array<timestamp>", [["2026-11-24T01:02:03Z", None], []]),
    "sd": ("struct<d: date>", [{"d": "2026-11-24"}, {"d": None}]),
    "md": ("map<date,int>", [[["2026-11-24", 1]], []]),
    "m": ("map<string,bigint>", [{"a": 1, "b": None}, {}]),
    "mt": ("map<int,time>", [[[1, "01:00:00"], [2, None]], []]),
    "st": ("struct<a: int, b: array<binary>>", [{"a": 1, "b": [{"base64": "/w=="}, None]}, {"a": None, "b": None}]),
}  # fmt: skip


@pytest.fixture
def typed(log_url):
    columns = {name: parse_type(type_) for name, (type_, _) in COLUMNS.items()}
    Admin(log_url).create_topic("typed", 2, schema=pa.schema({**columns, "du": pa.duration("us")}))
    return log_url


def test_every_type_of_column_comes_back_as_it_was(typed, here):
    rows = [
        {name: listed[at] for name, (_, listed) in COLUMNS.items()}
        | {"du": ["PT90061.5S", "-PT0.000001S"][at], "_timestamp": 1_700_000_000_000 + at, "_partition": at}
        for at in range(2)
    ]
    rows.append({"_partition": 1, "_timestamp": 1_700_000_000_007})
    here.produce(typed, "typed", b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    printed = here.consume(typed, "typed")
    found = [json.loads(line) for line in printed.splitlines()]
    for at, row in enumerate(found):
        assert {name: row[name] for name in rows[at]} == rows[at]
    assert all(found[2][name] is None for name in COLUMNS)
    # What consume prints, produce takes.
    columns = {name: parse_type(type_) for name, (type_, _) in COLUMNS.items()}
    Admin(typed).create_topic("again", 2, schema=pa.schema({**columns, "du": pa.duration("us")}))
    here.produce(typed, "again", printed)
    assert here.consume(typed, "again") == printed.replace(b'"_topic": "typed"', b'"_topic": "again"')


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 2: it is no JSON"),
        ("[1]", "line 2: expected a JSON object, found '[1]'"),
        ('{"i88": 1}', "line 2: the topic has no column 'i88'; did you mean i8?"),
        ('{"i8": 128}', "line 2: column i8: 128 has more than 8 bits"),
        ('{"i8": true}', "line 2: column i8: expected a whole number, found true"),
        ('{"s": 5}', "line 2: column s: expected text, found 5"),
        ('{"s": "\\ud800"}', "line 2: column s: half of a surrogate pair is no text"),
        ('{"bin": 5}', 'line 2: column bin: expected text or {"base64": "..."}, found 5'),
        ('{"dec": 0.12345678901234567}', "line 2: column dec: 0.1234567890123456"),
        ('{"dec": "1e40"}', "line 2: column dec: 1E+40 does not fit decimal128(38, 10)"),
        ('{"f64": NaN}', "line 2: it is no JSON: NaN is no JSON"),
        ('{"dt": "yesterday"}', "line 2: column dt: "),
        ('{"tm": "24:00:00"}', "line 2: column tm: expected a time such as"),
        ('{"du": "5 s"}', "line 2: column du: expected a duration such as"),
        ('{"l": {}}', "line 2: column l: expected an array, found {}"),
        ('{"l": [1, "x"]}', 'line 2: column l: [1]: expected a whole number, found "x"'),
        ('{"m": 5}', "line 2: column m: expected an object or an array of [key, value], found 5"),
        ('{"st": {"c": 1}}', "line 2: column st: there is no field 'c'; known are a, b"),
        ('{"_partition": 2}', "partition"),
        ('{"_timestamp": "now"}', "line 2: column _timestamp: expected a whole number, found 'now'"),
        ("[" * 100_000, "line 2: it is no JSON"),
    ],
)  # fmt: skip
def test_errors_of_typed_lines_name_line_and_column(typed, here, line, told):
    assert told in here.produce(typed, "typed", b'{"i8": 1}\n' + line.encode() + b"\n", code=1)
    assert values(typed, "typed") == []


def test_typed_numbers_keep_all_their_digits(typed, here):
    line = b'{"i64": 9007199254740993.0, "dec": 1234567890123456789012345678.0123456789}\n'
    here.produce(typed, "typed", line)
    row = json.loads(here.consume(typed, "typed"))
    assert (row["i64"], row["dec"]) == (9007199254740993, "1234567890123456789012345678.0123456789")


def test_a_column_that_allows_no_null(log_url, here):
    Admin(log_url).create_topic("t", schema=pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    for line in (b"{}", b'{"id": null}'):
        error = here.produce(log_url, "t", b'{"id": 1}\n' + line, code=1)
        assert "line 2: column id: it is missing or null, and the column allows no null" in error
    assert "topic 't' has columns: use --format json" in here.produce(
        log_url, "t", b"x", "--format", "text", code=1
    )


def test_a_column_of_the_name_of_a_place(log_url, here):
    Admin(log_url).create_topic("t", schema=pa.schema([("partition", pa.int32())]))
    error = here.produce(log_url, "t", b'{"partition": 7, "_partition": 0}', code=1)
    assert "line 1: the topic has a column 'partition': give --partition, not _partition" in error


def test_records_as_json_come_back_as_they_were(log_url, here):
    Admin(log_url).create_topic("t", 2)
    Admin(log_url).create_topic("copy", 2)
    with Producer(log_url, {"linger.ms": 60_000}) as producer:  # One entry: its order is that of partitions.
        producer.send("t", b"\xff", key=b"\x00\xfe", headers=[("h", b"\x80"), ("n", None)], partition=1)
        producer.send("t", None, key="k", partition=0, timestamp_ms=5)
        producer.send("t", "line\nbreak", headers=[("a", b"b")], partition=0)
    printed = here.consume(log_url, "t", "--json")
    assert printed.count(b"\n") == 3
    here.produce(log_url, "copy", printed, "--format", "json")
    assert here.consume(log_url, "copy", "--json") == printed.replace(b'"t"', b'"copy"')
    assert [one._replace(topic="t") for one in records(log_url, "copy")] == records(log_url, "t")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"valu": "x"}', "line 1: a record has no field 'valu'; did you mean value?"),
        ('{"value": {"a": 1}}', "line 1: value: expected text or"),
        ('{"headers": {"a": "b"}}', "line 1: headers: expected [[name, value], ...]"),
        ('{"value": {"base64": "%"}}', "line 1: value: "),
        ('{"timestamp": 1.5}', "line 1: timestamp: expected a whole number, found 1.5"),
        ('{"timestamp": true}', "line 1: timestamp: expected a whole number, found True"),
        ('{"partition": 2147483648}', "line 1: partition: expected a whole number, found 2147483648"),
    ],
)
def test_errors_of_records_as_json(log_url, here, line, told):
    assert told in here.produce(log_url, "t", line.encode(), "--format", "json", code=1)


def test_long_input_and_output_show_how_far_they_are(log_url, here, monkeypatch):
    shown = []
    monkeypatch.setattr(Progress, "count", lambda _self, what, done, of: shown.append((what, done, of)))
    told = here.produce(log_url, "t", b"x" * 1000 + b"\n" + b"y\n" * 800_000, "--json")
    assert json.loads(told) == {"topic": "t", "partition": 0, "offset": 0, "records": 800_001}
    assert shown[0][0] == "lines sent"
    assert len(shown) > 1
    assert shown[-1] == ("lines sent", 800_001, 0)
    shown.clear()
    here.consume(log_url, "t", "--property", "print.value=false", "print.offset=true")
    assert shown[-1] == ("records", 800_001, 0)


def test_many_lines(log_url, here):
    data = b"".join(b"%d\n" % number for number in range(200_000))
    assert here.produce(log_url, "t", data) == b"200,000 records written to topic t; the topic is new\n"
    assert here.consume(log_url, "t") == data


def test_a_line_that_no_record_can_hold_is_named_though_it_comes_in_pieces(monkeypatch):
    monkeypatch.setattr(lines, "_MAX_LINE_BYTES", 50)
    reading, writing = os.pipe()
    os.write(writing, b"1\n2\n" + b"x" * 40)
    blocks = lines.blocks(reading, lambda: None)
    assert next(blocks) == [b"1", b"2"]
    os.write(writing, b"x" * 20)
    os.close(writing)
    with pytest.raises(InvalidRecordError, match="line 3 has more than 50 bytes"):
        next(blocks)
    os.close(reading)
