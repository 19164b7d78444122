"""``eoslog top``: the panes, the screen under keys while a log is written to, and what it does without a terminal."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys

import pytest
from textual.widgets import DataTable, Input, Static

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.cli.operate.text import head_lines
from spark_eos.errors import StoreUnavailableError
from spark_eos.extensions.ui.top.panes import MOST_ROWS, PANES, table
from spark_eos.extensions.ui.top.view import Top
from spark_eos.monitoring import Lag, OpenTransaction, TopicActivity, Watch
from spark_eos.monitoring.activity import HeldBack
from spark_eos.protocol.actions import (
    CommitMicroBatch,
    CommitOffsets,
    InitProducer,
    JoinGroup,
    SyncGroup,
)
from spark_eos.protocol.types import PartitionOffset, SourceProgress
from spark_eos.storage import MemoryStore
from tests.log.fakes import FakeClock
from tests.starting import run

READERS, TOPICS, TRANSACTIONS = PANES
T0 = TopicPartition("orders", 0)
NEVER_S = 10_000.0


@pytest.fixture
def clock():
    clock = FakeClock()
    clock.now = 1_800_000_000.0
    return clock


@pytest.fixture
def log(clock):
    """Two topics and two groups, of which ``slow`` is behind by five of six records."""
    log = Log.create(MemoryStore(), clock)
    Admin(log).create_topic("orders", 2)
    Admin(log).create_topic("audit", 1)
    write(log, 6)
    for group, offset in {"slow": 1, "quick": 6}.items():
        Admin(log).alter_group_offsets(group, {T0: offset})
    clock.now += 90
    return log


def write(log, count, topic="orders"):
    with Producer(log, {"linger.ms": 60_000}) as producer:
        for _ in range(count):
            producer.send(topic, b"x" * 100, partition=0)


def began(log, name="stuck"):
    producer = Producer(log, {"transactional.id": name, "transaction.timeout.ms": 10_000})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"x", partition=0)
    producer.flush()
    return producer


def rows(pane, look, sort=None, wanted="", *, by_partition=False):
    return table(pane, look, sort or next(iter(pane.sorts)), wanted, by_partition=by_partition).rows


# -- Panes ------------------------------------------------------------------------------------------


def test_readers_by_name_and_by_partition(log):
    Admin(log).alter_group_offsets("slow", {TopicPartition("orders", 1): 0})
    look = Watch(log).look()
    slow, quick = rows(READERS, look)
    assert slow[:5] == ("group", "slow", "2", "5", "5")
    assert slow[6] == "1 min 30 s"
    assert quick == ("group", "quick", "1", "0", "0", "0", "0", "0")
    assert [row[:5] for row in rows(READERS, look, by_partition=True)] == [
        ("group", "slow", "orders", "0", "5"),
        ("group", "quick", "orders", "0", "0"),
        ("group", "slow", "orders", "1", "0"),
    ]
    assert [row[1] for row in rows(READERS, look, "name")] == ["quick", "slow"]


def test_a_group_that_has_committed_nothing_is_not_at_0(log):
    log.commit(lambda _: (JoinGroup("new", "a", ("orders",), ("range",), 45_000, None, "app"),))
    log.commit(lambda _: (SyncGroup("new", "a", 1),))
    new = rows(READERS, Watch(log).look())[-1]
    assert new == ("group", "new", "2, 1 unknown", "-", "-", "-", "-", "0")


def test_a_mirror_is_a_reader_of_which_its_last_commit_alone_is_known(log, clock):
    for name in ("mirror/shop/kafka-id/topic-id/0", "mirror-out/back"):
        log.commit(lambda state, name=name: (InitProducer(state.next_producer_id, 0, name, 60_000, "run"),))
        log.commit(
            lambda _, name=name: (CommitMicroBatch(name, name, "run", 0, (SourceProgress(None, "0"),)),)
        )
    clock.now += 300
    look = Watch(log).look()
    shop = ("elsewhere", "mirror/shop", "-", "-", "-", "-", "5 min ago", "-")
    back = ("elsewhere", "mirror-out/back", *"------")
    for sort in READERS.sorts:
        shown = rows(READERS, look, sort)
        assert {shop, back} <= {*shown}
        assert all(len(row) == len(READERS.header(False)) for row in shown)
    assert rows(READERS, look)[:2] == [back, shop]
    assert rows(READERS, look, wanted="SHOP", by_partition=True) == [
        ("elsewhere", "mirror/shop", "-", *shop[2:])
    ]

    async def steps(app, pilot):
        assert [row[1] for row in cells(app, "readers")][:2] == ["mirror-out/back", "mirror/shop"]
        await pilot.press("p", "s", "s", "s")
        assert "elsewhere" in {row[0] for row in cells(app, "readers")}

    on_screen(log, steps)


def test_topics_by_rate(log, clock):
    watch = Watch(log)
    watch.look()
    write(log, 4, "audit")
    clock.now += 2
    look = watch.look()
    assert [(row[0], row[2], row[4]) for row in rows(TOPICS, look)] == [
        ("audit", "2.0", "4"),
        ("orders", "0", "6"),
    ]
    assert [row[0] for row in rows(TOPICS, look, "offsets")] == ["orders", "audit"]
    _, line, _ = head_lines(look)
    assert "2.0 records/s" in line


def test_transactions(log, clock):
    producer = began(log)
    clock.now += 5
    look = Watch(log).look()
    assert rows(TRANSACTIONS, look) == [("stuck", "open", "5.0 s", "10.0 s", "1", "orders-0", "-")]
    assert head_lines(look)[2] == "2 readers, up to 1 min 35 s behind; 1 open transaction, 1 held back"
    clock.now += 6
    look = Watch(log).look()
    assert rows(TRANSACTIONS, look)[0][1] == "overdue"
    assert "1 overdue" in head_lines(look)[2]
    producer.close()


def test_every_sort_of_every_pane(log):
    producer = began(log)
    look = Watch(log).look()
    for pane in PANES:
        for sort in pane.sorts:
            for by_partition in (False, True):
                shown = table(pane, look, sort, "", by_partition=by_partition)
                assert sort in shown.title
                assert shown.rows
                assert all(len(row) == len(shown.header) for row in shown.rows)
    producer.close()


def test_what_a_sort_puts_first(log):
    def lag(name, offsets, records, time_ms, held):
        ends = (0, offsets, offsets + held)
        return Lag("group", name, "orders", 0, name, 0, *ends, offsets, records, 1, time_ms, 0, is_exact=True)

    look = (
        Watch(log)
        .look()
        ._replace(
            lags=[lag("c", 9, 5, 10, 7), lag("b", 9, 8, 50, 0), lag("a", 9, 3, 100, 1)],
            topics=[
                TopicActivity("c", 1, 6, 0.0, 5.0, 2),
                TopicActivity("b", 1, 5, 2.0, 10.0, 3),
                TopicActivity("a", 1, 9, 1.0, 90.0, 0),
            ],
            transactions=[opened("c", 2, 10, 4), opened("b", 3, 30, 1), opened("a", 1, 20, 9)],
        )
    )
    by_rate = {"records/s": "bac", "bytes/s": "abc"}
    for pane, orders in (
        (READERS, {"time behind": "abc", "records": "bca", "offsets held back": "cab", "name": "abc"}),
        (TOPICS, {**by_rate, "offsets": "acb", "offsets held back": "bca", "name": "abc"}),
        (TRANSACTIONS, {"age": "bac", "offsets held back": "acb", "name": "abc"}),
    ):
        assert {*orders} == {*pane.sorts}
        for sort, names in orders.items():
            shown = "".join(row[1 if pane is READERS else 0] for row in rows(pane, look, sort))
            assert (pane.name, sort, shown) == (pane.name, sort, names)


def opened(name, producer_id, age_s, held, *, parts=1, groups=(), is_prepared=False):
    held_back = tuple(HeldBack("orders", number, 0, held) for number in range(parts))
    times = (0, age_s * 1000, 15_000)
    return OpenTransaction(name, producer_id, 0, *times, held_back, groups, is_prepared)


def test_what_a_transaction_has_written(log):
    transactions = [
        opened("payer", 1, 20, 1, groups=("billing", "tellers"), is_prepared=True),
        opened("", 7, 10, 1, parts=22),
        opened("idle", 8, 5, 0, parts=0),
    ]
    look = Watch(log).look()._replace(transactions=transactions)
    prepared, wide, idle = rows(TRANSACTIONS, look)
    assert prepared == ("payer", "prepared", "20.0 s", "15.0 s", "1", "orders-0", "billing, tellers")
    assert wide[:2] == ("producer 7", "open")
    assert wide[5].endswith("orders-18, orders-19 and 2 more")
    assert idle[4:] == ("0", "-", "-")
    assert rows(TRANSACTIONS, look, wanted="ORDERS") == [prepared, wide]
    assert rows(TRANSACTIONS, look, wanted="tell") == [prepared]
    by_topic = [rows(READERS, look, wanted="order", by_partition=is_asked) for is_asked in (True, False)]
    assert list(map(len, by_topic)) == [2, 0], "a topic is not shown where partitions are summed up"


def test_a_filter_finds_what_does_not_fit(log):
    topic_id = log.state.topics["orders"].topic_id
    offsets = [
        CommitOffsets(f"group-{number:04}", (PartitionOffset("orders", topic_id, 0, 6),))
        for number in range(1000)
    ]
    log.commit(lambda _: tuple(offsets))
    look = Watch(log).look()
    shown = table(READERS, look, "name", "", by_partition=False)
    assert (len(shown.rows), shown.title) == (MOST_ROWS, f"Readers ({MOST_ROWS} of 1,002), by name")
    shown = table(READERS, look, "name", "UP-0999", by_partition=False)
    assert ([row[1] for row in shown.rows], shown.title) == (
        ["group-0999"],
        "Readers (1 of 1,002), by name, with 'UP-0999'",
    )


def test_an_empty_log(clock):
    look = Watch(Log.create(MemoryStore(), clock)).look()
    assert [rows(pane, look) for pane in PANES] == [[], [], []]
    assert head_lines(look)[2] == "no readers; no open transaction"


# -- The screen -------------------------------------------------------------------------------------


def on_screen(log, steps, size=(80, 24)):
    """Run ``steps(app, pilot)`` on the view of a log; it looks only when it is told to."""

    async def run():
        watch = Watch(log)
        app = Top(watch, watch.look(), NEVER_S)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(app, pilot)

    asyncio.run(asyncio.wait_for(run(), 300))


async def until(pilot, condition):
    """What is typed goes from the field to the tables through queues of its own."""
    while not condition():
        await pilot.pause(0.01)


def cells(app, pane):
    shown = app.query_one(f"#{pane} DataTable", DataTable)
    return [[cell.plain.strip() for cell in shown.get_row_at(at)] for at in range(shown.row_count)]


def visible(app):
    return [pane for pane in ("readers", "topics", "transactions") if app.query_one(f"#{pane}").display]


def text(app, name):
    return str(app.query_one(f"#{name}", Static).render())


def drawn(app):
    """The screen, line by line, as it is drawn."""
    return ["".join(part.text for part in line) for line in app.screen._compositor.render_strips()]


def test_panes_by_keys_on_a_small_screen(log):
    async def steps(app, pilot):
        assert visible(app) == ["readers"]
        assert [row[1] for row in cells(app, "readers")] == ["slow", "quick"]
        for key, pane in (("2", "topics"), ("3", "transactions"), ("1", "readers"), ("tab", "topics")):
            await pilot.press(key)
            assert visible(app) == [pane]
            assert app.focused is app.query_one(f"#{pane} DataTable")
        await pilot.press("1", "s")
        assert "by records" in str(app.query_one("#readers .title", Static).render())
        await pilot.press("p")
        assert cells(app, "readers")[0][2:4] == ["orders", "0"]
        lines = drawn(app)
        assert len(lines) == 24
        assert all(len(line) == 80 for line in lines)
        assert lines[-1].split() == [
            *("1", "Readers", "2", "Topics", "3", "Transactions", "s", "Sort", "/", "Filter", "p", "Parts"),
            *("space", "Pause", "q", "Quit"),
        ]

    on_screen(log, steps)


def test_a_large_screen_shows_all_panes_and_may_become_small(log):
    async def steps(app, pilot):
        assert visible(app) == ["readers", "topics", "transactions"]
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert visible(app) == ["readers"]

    on_screen(log, steps, size=(200, 50))


def test_a_log_that_is_written_to(log, clock):
    async def steps(app, _):
        write(log, 10)
        producer = began(log)
        Admin(log).alter_group_offsets("new", {T0: 16})
        clock.now += 5
        await app.look()
        assert "2.2 records/s" in text(app, "head")
        assert [row[1] for row in cells(app, "readers")] == ["slow", "quick", "new"]
        assert [row[0] for row in cells(app, "transactions")] == ["stuck"]
        assert cells(app, "topics")[0][:3] == ["orders", "2", "2.2"]
        producer.abort_transaction()
        producer.close()
        Admin(log).delete_group("new")
        Admin(log).delete_topic("audit")
        await app.look()
        assert [row[1] for row in cells(app, "readers")] == ["slow", "quick"]
        assert cells(app, "transactions") == []
        assert [row[0] for row in cells(app, "topics")] == ["orders"]
        assert app.looks == 3

    on_screen(log, steps)


def test_it_looks_by_itself_and_pauses(log):
    """With a short interval: waits for looks, and never for a time."""

    async def run():
        watch = Watch(log)
        app = Top(watch, watch.look(), 0.01)
        async with app.run_test(size=(80, 24)) as pilot:
            while app.looks < 4:
                await pilot.pause(0.01)
            await pilot.press("space")
            assert "PAUSED" in text(app, "head")
            await app.workers.wait_for_complete()
            looks = app.looks
            await pilot.pause(0.1)
            assert app.looks == looks
            await pilot.press("space")
            while app.looks == looks:
                await pilot.pause(0.01)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_filter_is_typed_and_removed(log):
    async def steps(app, pilot):
        await pilot.press("slash", "s", "L")
        await until(pilot, lambda: [row[1] for row in cells(app, "readers")] == ["slow"])
        await pilot.press("q")  # A letter of the filter, and not the end.
        await until(pilot, lambda: cells(app, "readers") == [])
        await pilot.press("backspace", "enter")
        await until(pilot, lambda: app.focused is app.query_one("#readers DataTable"))
        await until(pilot, lambda: "with 'sL'" in str(app.query_one("#readers .title", Static).render()))
        await app.look()
        assert [row[1] for row in cells(app, "readers")] == ["slow"]
        await pilot.press("escape")
        await until(pilot, lambda: len(cells(app, "readers")) == 2)
        assert app.query_one("#filter", Input).value == ""

    on_screen(log, steps)


def test_the_cursor_stays_where_it_is(log, clock):
    async def steps(app, pilot):
        await pilot.press("down")
        shown = app.query_one("#readers DataTable", DataTable)
        assert shown.cursor_row == 1
        clock.now += 5
        await app.look()
        assert shown.cursor_row == 1
        Admin(log).alter_group_offsets("a name that makes the column wider", {T0: 6})
        await app.look()
        await pilot.pause()
        assert [row[1] for row in cells(app, "readers")] == [
            "slow",
            "a name that makes the column wider",
            "quick",
        ]
        assert shown.cursor_row == 1
        write(log, 1_000)
        await app.look()
        assert cells(app, "readers")[0][3:5] == ["1,005", "1,005"]

    on_screen(log, steps, size=(120, 24))


def test_long_and_strange_names_fit_the_screen(log):
    names = ["z" * 300, "日本" * 100, "a\n\x1b[31mb", "[bold]x[/bold]"]
    for name in names:
        Admin(log).alter_group_offsets(name, {T0: 0})

    async def wide(app, pilot):
        await pilot.press("p")
        shown = [row[1] for row in cells(app, "readers")]
        assert {"a\\n\\x1b[31mb", "[bold]x[/bold]"} <= {*shown}
        assert any(name.startswith("zzz") and name.endswith("…") for name in shown)
        assert any(name.startswith("日本") and name.endswith("…") for name in shown)
        assert app.query_one("#readers DataTable", DataTable).virtual_size.width <= 120

    async def narrow(app, pilot):
        await pilot.press("p")
        await pilot.pause()
        assert drawn(app)[4].split()[-1] == "HELD"
        assert app.query_one("#readers DataTable", DataTable).virtual_size.width <= 80

    on_screen(log, wide, size=(120, 40))
    on_screen(log, narrow)


def test_a_store_that_does_not_answer_is_told_and_looked_at_again(log, monkeypatch):
    follow = log.follow

    def fails(*_):
        raise StoreUnavailableError("the store does not answer [x]")

    async def steps(app, pilot):
        monkeypatch.setattr(log, "follow", fails)
        await app.look()
        await pilot.pause()
        assert app.query_one("#problem").display
        assert "the store does not answer [x]" in text(app, "problem")
        assert len(cells(app, "readers")) == 2
        monkeypatch.setattr(log, "follow", follow)
        await app.look()
        assert not app.query_one("#problem").display

    on_screen(log, steps)


# -- Without a terminal -----------------------------------------------------------------------------


def test_without_a_terminal_it_names_what_to_use(log_url, capsys):
    Log.create(log_url)
    assert main(["top", log_url]) == 1
    assert "needs a terminal. Use eoslog lag" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--interval", "0"], "--interval must be at least"), (["--interval", "nan"], "--interval must be"),
     (["--count", "1"], "belongs to --json"), (["--json", "--count", "0"], "--count is a number")],
    ids=str,
)  # fmt: skip
def test_wrong_options(arguments, words, log_url, capsys):
    assert main(["top", log_url, *arguments]) == 1
    assert words in capsys.readouterr().err


def test_json(log_url, capsys):
    log = Log.create(log_url)
    Admin(log).create_topic("orders", 1)
    write(log, 3)
    Admin(log).alter_group_offsets("g", {T0: 1})
    producer = began(log)
    assert main(["top", log_url, "--json", "--count", "2", "--interval", "0.1"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["window_s"], second["seq"]) == (0, first["seq"])
    assert (first["records_per_s"], first["topics"][0]["records_per_s"]) == (None, None)
    assert second["window_s"] > 0
    assert (second["records_per_s"], second["topics"][0]["records_per_s"]) == (0, 0)
    assert second["lags"][0]["records"] == 2
    assert second["transactions"][0]["partitions"] == [
        {"topic": "orders", "partition": 0, "first_offset": 3, "offsets": 1}
    ]
    assert (second["topics"][0]["name"], second["topics"][0]["held_back"]) == ("orders", 1)
    assert second["elsewhere"] == []
    producer.close()


def test_json_goes_on_until_it_is_interrupted(log_url):
    Log.create(log_url)
    command = [sys.executable, "-m", "spark_eos", "top", log_url, "--json", "--interval", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert [json.loads(process.stdout.readline())["seq"] for _ in range(3)] == [0, 0, 0]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert (process.returncode, err) == (130, "")


def test_a_log_in_a_bucket(minio_server, capsys, tmp_path):
    url = f"{minio_server.url}/tests/top"
    admin = Admin(url, minio_server.settings)
    admin.create_topic("orders", 2)
    admin.alter_group_offsets("slow", {T0: 0})
    config = tmp_path / "store.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in minio_server.settings.items()))
    assert main(["top", url, "--json", "--count", "1", "--command-config", str(config)]) == 0
    (lag,) = json.loads(capsys.readouterr().out)["lags"]
    assert (lag["name"], lag["topic"], lag["partition"]) == ("slow", "orders", 0)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_keys_that_end_it(log, key):
    async def steps(app, pilot):
        await pilot.press(key)
        assert app._exit
        assert app.return_code == 0

    on_screen(log, steps)


def test_the_extra_is_named_if_textual_is_missing(log_url):
    Log.create(log_url)
    done = run("extensions/ui/top_without_textual", log_url, status=1)
    assert "eoslog top needs textual" in done.stderr
    assert "'spark-eos[ui]'" in done.stderr
