"""``eoslog consume``: what is printed, from where, until when; pipes, groups and signals."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
from contextlib import suppress
from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer
from spark_eos.cli.command import main
from spark_eos.cli.console.consume import _place, _Reading
from spark_eos.cli.console.interrupts import Interrupted, Interrupts
from spark_eos.cli.console.json_columns import from_json, to_json
from spark_eos.cli.console.rendering import shown_on_terminal
from spark_eos.log.log import Log
from spark_eos.log.snapshots.maintenance import BackgroundMaintenance
from tests.cli.console import Here, eoslog
from tests.cli.test_produce import start, wait_for


@pytest.fixture
def here(tmp_path, capfdbinary):
    return Here(tmp_path, capfdbinary)


@pytest.fixture
def url(log_url):
    Admin(log_url).create_topic("t", 2)
    with Producer(log_url, {"linger.ms": 60_000}) as producer:  # All are one batch: a poll takes one.
        for number in range(5):
            producer.send(
                "t", b"%d" % number, key=b"k", headers=[("h", b"v")], partition=0, timestamp_ms=1000 + number
            )
        producer.send("t", None, partition=1, timestamp_ms=2000)
    return log_url  # fmt: skip


def test_what_is_there_is_printed(url, here):
    printed = here.consume(url, "t")
    assert printed.replace(b"null\n", b"") == b"0\n1\n2\n3\n4\n"
    assert printed.count(b"null\n") == 1, "partitions come in any order"
    assert here.consume(url, "t", "--partition", "1") == b"null\n"


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["--key"], b"k\t4\n"),
        (["--key", "--headers", "--timestamp"], b"CreateTime:1004\th:v\tk\t4\n"),
        (
            ["--property", "print.offset=true", "print.partition=true", "key.separator=|"],
            b"Partition:0|Offset:4|4\n",
        ),
        (["--formatter-property", "print.value=false", "print.key=true"], b"k\n"),
        (["--property", "line.separator=;"], b"4;"),
        (["--format", "hex", "--key", "--headers"], b"h:76\t6b\t34\n"),
        (["--key", "--property", "key.separator=\\n", "line.separator="], b"k\n4"),
        (
            ["--property", "value.deserializer=org.apache.kafka.common.serialization.StringDeserializer"],
            b"4\n",
        ),
        (
            ["--json"],
            (
                b'{"topic": "t", "partition": 0, "offset": 4, "timestamp": 1004, "key": "k", "value": "4", '
                b'"headers": [["h", "v"]]}\n'
            ),
        ),
    ],
)
def test_what_is_printed_of_a_record(url, here, arguments, printed):
    assert here.consume(url, "t", "--partition", "0", "--offset", "4", *arguments) == printed


def test_nulls_and_no_headers(url, here):
    with Producer(url) as producer:
        producer.send("t", None, headers=[("a", b"1"), ("b", None)], partition=1)
    arguments = (
        "--partition",
        "1",
        "--key",
        "--headers",
        "--property",
        "null.literal=NIL",
        "headers.separator=;",
    )
    assert here.consume(url, "t", *arguments) == b"NO_HEADERS\tNIL\tNIL\na:1;b:NIL\tNIL\tNIL\n"


def test_rows_with_columns_as_text(log_url, here):
    Admin(log_url).create_topic("t", schema=pa.schema([("id", pa.int64())]))
    here.produce(log_url, "t", b'{"id": 1, "_timestamp": 5}\n')
    assert here.consume(log_url, "t", "--timestamp", "--key") == b'CreateTime:5\tnull\t{"id": 1}\n'
    assert "topic 't' has columns; use --format json" in here.run(
        "consume", log_url, "t", "--format", "hex", code=1
    )


def test_a_pipe_gets_records_as_they_are(url, here):
    with Producer(url) as producer:
        producer.send("t", b"\x1b[31m\x00", partition=1)
    assert here.consume(url, "t", "--partition", "1", "--offset=-1") == b"\x1b[31m\x00\n"


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["--from-beginning", "--max-messages", "2"], b"0\n1\n"),
        (["--offset", "3"], b"3\n4\n"),
        (["--offset=-2"], b"3\n4\n"),
        (["--offset", "-9"], b"0\n1\n2\n3\n4\n"),
        (["--offset", "earliest", "--max-messages", "1"], b"0\n"),
        (["--offset", "latest"], b""),
        (["--from-time", "1003"], b"3\n4\n"),
        (["--from-time", "1960-01-01"], b"0\n1\n2\n3\n4\n"),
        (["--from-time", "1970-01-01T00:00:01.004"], b"4\n"),
        (["--from-time", "2020-01-01"], b""),
        (["--timeout-ms", "0", "--offset", "4"], b"4\n"),
    ],
)
def test_where_reading_begins_and_ends(url, here, arguments, printed):
    assert here.consume(url, "t", "--partition", "0", *arguments) == printed


def test_it_ends_where_the_log_ended_when_it_began(url, here, monkeypatch):
    """A writer may go on for ever."""
    later = [b"%d" % number for number in range(5, 9)]

    def poll(*arguments):
        if later:
            with Producer(url) as producer:
                producer.send("t", later.pop(0), partition=0)
        return poll_arrow(*arguments)

    poll_arrow = Consumer.poll_arrow
    monkeypatch.setattr(Consumer, "poll_arrow", poll)
    here.consume(url, "t", "--partition", "0")
    assert later == [b"6", b"7", b"8"]


def test_only_what_is_followed_begins_at_the_end():
    assert _place(None, None, from_beginning=False, follow=True) == "latest"
    for from_beginning, follow in ((True, True), (False, False)):
        assert _place(None, None, from_beginning=from_beginning, follow=follow) == "earliest"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--offset", "soon"], "'soon' is not a number, earliest or latest"),
        (["--from-time", "soon"], "'soon' is neither YYYY"),
        (["--offset", "1", "--from-beginning"], "it cannot be used with"),
        (["--group", "g", "--offset", "1"], "a group begins at its own offsets"),
        (["--group", "g", "--partition", "1"], "it cannot be used with"),
        (["--group", "g", "--consumer-property", "group.id=h"], "a setting of the consumer is group.id=h"),
        (["--partition", "1", "--consumer-property", "group.id=h"], "it cannot be used with"),
        (["--property", "print.keys=true"], "did you mean print.key"),
    ],
)
def test_wrong_usage(url, capsys, arguments, told):
    with pytest.raises(SystemExit) as stopped:
        main(["consume", url, "t", *arguments])
    assert stopped.value.code == 2
    assert told in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["u"], "no topic 'u'"),
        (["t", "--partition", "2"], "topic 't' has no partition 2: its partitions are 0 to 1"),
        (["t", "--format", "avro"], "are not Avro"),
        (["t", "--json", "--key"], "are not for JSON"),
        (["t", "--consumer-property", "group=x"], "group"),
    ],
)
def test_what_is_refused(url, here, arguments, told):
    assert told in here.run("consume", url, *arguments, code=1)


def test_aborted_records(url, here):
    producer = Producer(url, {"transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"aborted", partition=0)
    producer.flush()
    producer.abort_transaction()
    assert here.consume(url, "t", "--offset", "5", "--partition", "0") == b"aborted\n"
    assert here.consume(url, "t", "--offset", "5", "--isolation-level", "read_committed") == b""
    as_setting = ("--consumer-property", "isolation.level=read_committed")
    assert here.consume(url, "t", "--offset", "5", *as_setting) == b""
    assert (
        here.consume(url, "t", "--offset", "5", *as_setting, "--isolation-level", "read_uncommitted") != b""
    )


@pytest.mark.parametrize("group", [("--group", "g"), ("--consumer-property", "group.id=g")])
def test_a_group_commits_what_was_printed(url, here, group):
    first = here.consume(url, "t", *group, "--max-messages", "1")
    rest = here.consume(url, "t", *group)
    assert sorted((first + rest).split()) == [b"0", b"1", b"2", b"3", b"4", b"null"]
    assert here.consume(url, "t", "--group", "g") == b""
    assert [part.lag for part in Admin(url).describe_group("g").partitions] == [0, 0]
    assert Admin(url).describe_group("g").members == []


def test_what_could_not_be_printed_is_not_committed(url, here, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_Reading, "_print", full)
    assert "cannot be written" in here.run("consume", url, "t", "--group", "g", code=1)
    assert Admin(url).list_group_offsets("g") == {}


def test_settings_of_the_command_line_win_over_those_of_the_file(url, here, tmp_path):
    file = tmp_path / "settings"
    file.write_text("auto.offset.reset=latest\n")
    given = ("--group", "g", "--command-config", file)
    assert here.consume(url, "t", *given) == b""
    assert (
        len(here.consume(url, "t", *given, "--consumer-property", "auto.offset.reset=earliest").split()) == 6
    )


class Joining:
    """A consumer that a group gives a partition at its third poll."""

    def __init__(self):
        self.waits_ms = []

    def subscribe(self, _topics, on_assign):
        self._on_assign = on_assign

    def poll_arrow(self, wait_ms, _limit):
        self.waits_ms.append(wait_ms)
        if len(self.waits_ms) == 3:
            self._on_assign(self, [])
        return pa.table({})


def test_a_group_is_waited_for(url, capsys):
    consumer = Joining()
    reading = _Reading(consumer, Log.open(url).topic("t"), None, is_group=True)
    reading.begin(None, "earliest")
    reading.run(Interrupts(), None, None, is_bounded=True)
    assert consumer.waits_ms == [500, 500, 500]
    assert capsys.readouterr().err == "eoslog: the other members of the group have all partitions\n"


def test_looking_writes_nothing(url, here):
    entries = sorted(json.loads(line)["seq"] for line in here.run("dump", url, "--json").splitlines())
    here.consume(url, "t")
    here.run("get-offsets", url)
    here.run("describe", url)
    assert sorted(json.loads(line)["seq"] for line in here.run("dump", url, "--json").splitlines()) == entries


@pytest.mark.deep
def test_a_pipe_whose_reader_ends(url):
    with Producer(url) as producer:
        producer.send_arrow("t", pa.table({"value": pa.array([b"x" * 100] * 50_000)}), partition=1)
    code = f"{sys.executable} -m spark_eos consume {url} t --group g | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", code], capture_output=True, check=True)
    assert done.stdout.split()[1:] == [b"0"], "the exit code"
    assert done.stderr == b""
    committed = Admin(url).list_group_offsets("g")
    assert all(at.offset <= 5 for at in committed.values()), "what was not taken is not committed"


@pytest.mark.parametrize(("mode", "shown"), [((), "records: 5\n"), (("--follow",), "")])
def test_what_follows_does_not_say_for_ever_how_far_it_is(url, monkeypatch, capfdbinary, mode, shown):
    monkeypatch.setattr("spark_eos.cli.progress._LINE_S", 0.0)
    options = ("--from-beginning", "--partition", "0", "--max-messages", "5")
    assert main(["consume", url, "t", *options, *mode]) == 0
    assert capfdbinary.readouterr().err.decode() == shown


@pytest.mark.deep("SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_follows_until_a_signal_comes(url, number):
    process = start("consume", url, "t", "--follow", "--from-beginning", "--partition", "0")
    assert [process.stdout.readline() for _ in range(5)] == [b"%d\n" % at for at in range(5)]
    with Producer(url) as producer:
        producer.send("t", b"later", partition=0)
    assert process.stdout.readline() == b"later\n"
    process.send_signal(number)
    assert process.communicate() == (b"", b"")
    assert process.returncode == 128 + number


def test_it_takes_partitions_that_are_new_while_others_give_records(url):
    """Looking only when nothing comes would wait for the end of the others' records. No setting says where to begin."""
    with Consumer(url, {"auto.offset.reset": "none"}) as consumer, Producer(url) as producer:
        polled, given = consumer.poll_arrow, []

        def poll(wait_ms, limit):
            """Each poll finds a record of the first partition."""
            if len(given) == 1:
                Admin(url).alter_topic("t", partitions=3)
                producer.send("t", b"new", partition=2).result()
            producer.send("t", b"busy", partition=0).result()
            given.append(polled(wait_ms, limit))
            return given[-1]

        consumer.poll_arrow = poll
        reading = _Reading(
            consumer, Log.open(url).topic("t"), lambda table: [b""] * table.num_rows, is_group=False
        )
        reading.begin(None, "latest")
        reading.run(Interrupts(), 5, None, is_bounded=False)
        assert b"new" in [value for table in given for value in table["value"].to_pylist()]


@pytest.mark.deep("SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_below_a_library_that_drops_it(monkeypatch, url, number):
    def interrupted(_self, _table):
        with suppress(Interrupted):
            signal.raise_signal(number)

    monkeypatch.setattr(_Reading, "_print", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["consume", url, "t", "--follow", "--from-beginning"])
    assert ended.value.code == 128 + number


def test_it_follows_partitions_that_are_new(url):
    process = start("consume", url, "t", "--follow", "--from-beginning", "--max-messages", "8")
    assert len([process.stdout.readline() for _ in range(6)]) == 6
    Admin(url).alter_topic("t", partitions=3)
    with Producer(url) as producer:
        producer.send("t", b"new", partition=2)
        assert process.stdout.readline() == b"new\n"
        producer.send("t", b"old", partition=0)
        assert process.communicate() == (b"old\n", b"")
    assert process.returncode == 0


@pytest.mark.deep
def test_with_follow_alone_reading_begins_at_the_end(url):
    process = start("consume", url, "t", "--follow", "--group", "g", "--max-messages", "1")
    wait_for(lambda: Admin(url).describe_group("g").members)
    with Producer(url) as producer:
        while process.poll() is None:  # The member may have joined, and not yet have looked where the end is.
            producer.send("t", b"new", partition=0).result()
    assert process.communicate()[0] == b"new\n"
    assert process.returncode == 0


@pytest.mark.deep
def test_it_waits_for_records_that_come_in_time(url):
    process = start(
        "consume",
        url,
        "t",
        "--partition",
        "0",
        "--offset",
        "5",
        "--timeout-ms",
        "60000",
        "--max-messages",
        "1",
    )
    with Producer(url) as producer:
        producer.send("t", b"new", partition=0)
    assert process.communicate()[0] == b"new\n"  # fmt: skip


def test_the_timeout_begins_again_with_each_record(url, here, monkeypatch):
    now, records = 0.0, [b"5", None, b"6", None, b"7"]

    def poll(consumer, _, limit):
        nonlocal now
        now += 0.6
        if records and (value := records.pop(0)) is not None:
            with Producer(url) as producer:
                producer.send("t", value, partition=0)
        return poll_arrow(consumer, 0, limit)

    poll_arrow = Consumer.poll_arrow
    monkeypatch.setattr(Consumer, "poll_arrow", poll)
    monkeypatch.setattr("spark_eos.cli.console.consume.time", SimpleNamespace(monotonic=lambda: now))
    place = ("--partition", "0", "--offset", "5")
    assert here.consume(url, "t", *place, "--timeout-ms", "1000") == b"5\n6\n7\n"


def test_maintenance_is_left_to_others(url, here, monkeypatch):
    shares = []
    monkeypatch.setattr(BackgroundMaintenance, "run_slice", lambda _, state: shares.append(state.seq))
    assert here.consume(url, "t", "--group", "g").count(b"\n") == 6
    assert shares == []


@pytest.mark.parametrize("command", ["consume {} t", "topics {}"])
def test_a_closed_standard_output(url, command):
    done = subprocess.run(
        ["bash", "-c", f"exec {sys.executable} -m spark_eos {command.format(url)} >&-"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"standard output is closed" in done.stderr


@pytest.mark.deep("--version")
@pytest.mark.parametrize("command", ["consume {} t", "topics {}", "--version", "topics --help"])
def test_an_output_that_is_full(url, command):
    code = f"exec {sys.executable} -m spark_eos {command.format(url)} >/dev/full"
    done = subprocess.run(["bash", "-c", code], capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr == b"eoslog: the output cannot be written: [Errno 28] No space left on device\n"


@pytest.mark.parametrize(
    ("pairs", "shown"),
    [([("a", 1), ("b", 2)], {"a": 1, "b": 2}), ([("a", 1), ("a", 2)], [["a", 1], ["a", 2]])],
)
def test_a_map_with_a_key_twice_is_no_object(pairs, shown):
    """An object would have lost one of the two."""
    type_ = pa.map_(pa.string(), pa.int64())
    assert to_json(type_)(pairs) == shown
    assert from_json(type_)(shown) == pairs


@pytest.mark.parametrize(
    ("type_", "text", "stored"),
    [
        (pa.duration("us"), "P1DT1H1M1.5S", 90_061_500_000),
        (pa.time64("ns"), "13:05:00.25", 47_100_250_000_000),
    ],
    ids=str,
)
def test_times_as_people_write_them(type_, text, stored):
    assert from_json(type_)(text) == stored


@pytest.mark.parametrize("type_", [pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")], ids=str)
def test_times_that_no_calendar_has_are_numbers(type_):
    assert to_json(type_)(2**31 - 1 if type_ == pa.date32() else 2**63 - 1) > 2**30


@pytest.mark.parametrize(
    ("type_", "value", "told"),
    [
        (pa.duration("us"), "P999999999D", "is longer than a duration can be"),
        (pa.map_(pa.string(), pa.int64()), [[None, 1]], "key: expected text, found None"),
        (pa.binary(), {"base64": "/w==", "more": 1}, r'expected text or \{"base64": "..."\}'),
    ],
    ids=str,
)
def test_what_is_no_value_of_a_column(type_, value, told):
    with pytest.raises(ValueError, match=told):
        from_json(type_)(value)


def test_records_do_not_steer_a_terminal():
    assert shown_on_terminal(b"a\tb\n\x1b[31m\x07") == b"a\tb\n\\x1b[31m\\x07"


@pytest.mark.deep
def test_a_huge_record_passes(log_url):
    Admin(log_url).create_topic("t", config={"max.message.bytes": 20_000_000})
    huge = b"\x80" * 10_000_000
    largest = ("--producer-property", "max.request.size=20000000")
    eoslog("produce", log_url, "t", *largest, stdin=huge)
    assert eoslog("consume", log_url, "t").stdout == huge + b"\n"
