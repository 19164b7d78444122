"""The recipes of docs/guide/database-recipes.md: killed before each line, on PostgreSQL and SQLite, and fenced."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest

from spark_eos import Admin, Consumer, TopicPartition
from spark_eos.errors import InvalidTxnStateError, ProducerFencedError
from tests.recipes import postgres
from tests.recipes.killing import loaded

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/guide/database-recipes.md").read_text(encoding="utf-8")
CODE = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
DUAL, OUTBOX, COPY = range(3)
OF_SQLITE = re.search(r"`(SELECT '0'.*?)`", PAGE, re.DOTALL)[1].replace("\n", " ")
ITEMS = {
    "postgres": re.search(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1],
    "sqlite": "CREATE TABLE items (id INTEGER PRIMARY KEY, item TEXT)",
}


def program(recipe, kind):
    """The code of the page; for SQLite with the changes that the page names."""
    code = CODE[recipe]
    if kind == "sqlite":
        code = re.sub(r'NEW_ROWS = """.*?"""', f'NEW_ROWS = "{OF_SQLITE}"', code, flags=re.DOTALL)
        code = code.replace("import psycopg", "import sqlite3").replace("psycopg.", "sqlite3.")
        code = code.replace("%s", "?").replace(", options=TIMEOUTS", "")
    return code


@pytest.fixture(scope="module")
def server():
    if postgres.missing():
        pytest.skip(postgres.missing())
    with postgres.server() as where:
        yield where


@pytest.fixture(params=["postgres", "sqlite"])
def world(request, tmp_path):
    """The kind of the database, where it is, and the folder of the log."""
    if request.param == "sqlite":
        return "sqlite", str(tmp_path / "shop.db"), str(tmp_path / "log")
    where = request.getfixturevalue("server")
    name = f"test_{abs(hash(tmp_path))}"
    subprocess.run(["psql", "-q", where, "-c", f"CREATE DATABASE {name}"], check=True)
    return "postgres", where.replace("dbname=postgres", f"dbname={name}"), str(tmp_path / "log")


@pytest.fixture(autouse=True)
def _closed(monkeypatch):
    """Connections that a program leaves to the end of its process end with the test."""
    made, connected = [], psycopg.connect

    def remembered(where, **options):
        made.append(connected(where, **options))
        return made[-1]

    monkeypatch.setattr(psycopg, "connect", remembered)
    yield
    for one in made:
        one.close()


def connect(world):
    kind, where, _ = world
    return sqlite3.connect(where, check_same_thread=False) if kind == "sqlite" else psycopg.connect(where)


def killed_at_every_line(recipe, world, *, tables, topic, sells=True, before=()):
    kind, where, log = world
    plan = {
        "kind": kind,
        "where": where,
        "log": log,
        "code": program(recipe, kind),
        "tables": tables,
        "topic": topic,
        "sells": sells,
        "before": before,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.recipes.killing"],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) > 20
    return found


def values(log, topic):
    consumer = Consumer(log, {"auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0)])
    return [record.value.decode() for record in consumer.poll()]


# -- Dual write -------------------------------------------------------------------------------------


@pytest.mark.deep
def test_dual_write_killed_before_every_line(world):
    cases = []
    for one in killed_at_every_line(DUAL, world, tables=["sales"], topic="sales"):
        assert one["then"]["log"] == list(dict.fromkeys(one["then"]["log"])), one
        assert sorted(one["then"]["log"]) == one["then"]["sales"], one
        item = f"item-{one['line']}"
        cases.append((item in one["left"]["sales"], item in one["left"]["log"], item in one["then"]["log"]))
    # The rows of the table, in their order; the log is never ahead.
    assert list(dict.fromkeys(cases)) == [(False, False, False), (True, False, True), (True, True, True)]


def begun(world):
    """A process of the first recipe."""
    kind, where, log = world
    names = loaded(program(DUAL, kind))
    database = names["open_database"](where)
    producer, owner = names["start"](log, database)
    return names, database, producer, owner


class Paused:
    """A database whose user sleeps before its n-th command."""

    def __init__(self, database, command, sleep):
        self._database, self._command, self._sleep = database, command, sleep

    def execute(self, command, parameters=()):
        if command.startswith(self._command):
            self._sleep()
        return self._database.execute(command, parameters)

    def commit(self):
        if self._command == "COMMIT":
            self._sleep()
        self._database.commit()

    def __getattr__(self, name):
        return getattr(self._database, name)


def test_a_process_that_slept_before_it_wrote_is_fenced_in_the_database(world):
    names, database, producer, owner = begun(world)
    after = []
    paused = Paused(database, "INSERT", lambda: after.append(begun(world)))
    with pytest.raises(RuntimeError, match="another process has taken over"):
        names["sell"](producer, paused, owner, "apple")
    newer, other, heir, new_owner = after[0]
    assert (new_owner, values(world[2], "sales")) == (owner + 1, [])
    newer["sell"](heir, other, new_owner, "pear")
    assert values(world[2], "sales") == ["pear"]
    assert connect(world).execute("SELECT item FROM sales").fetchall() == [("pear",)]


def test_a_process_that_takes_over_waits_for_a_commit_under_way(world):
    _, where, log = world
    names, database, producer, owner = begun(world)
    opened, goes = threading.Event(), threading.Event()
    owners = []

    def take_over():
        other = names["open_database"](where)
        opened.set()
        assert goes.wait(30)
        owners.append(names["start"](log, other)[1])

    def sleep():
        goes.set()
        wait_until_fenced(log)

    heir = threading.Thread(target=take_over)
    heir.start()
    assert opened.wait(30)
    with pytest.raises(ProducerFencedError):
        # It commits in the database after it was fenced in the log, and while the heir waits for the row.
        names["sell"](producer, Paused(database, "COMMIT", sleep), owner, "fig")
    heir.join(30)
    assert owners == [owner + 1]
    assert values(log, "sales") == ["fig"]
    assert connect(world).execute("SELECT item FROM sales").fetchall() == [("fig",)]


def begun_with_timeouts(world, idle, lock):
    """A process of the first recipe; the timeouts of the page are too long for a test."""
    _, where, log = world
    names = loaded(program(DUAL, "postgres"))
    for name, value in (("idle_in_transaction_session", idle), ("lock", lock)):
        names["TIMEOUTS"], count = re.subn(
            rf"{name}_timeout=\d+s", f"{name}_timeout={value}s", names["TIMEOUTS"]
        )
        assert count == 1
    database = names["open_database"](where)
    return names, database, names["start"](log, database)


@pytest.mark.parametrize("world", ["postgres"], indirect=True)
def test_a_process_that_is_frozen_before_its_commit_blocks_nobody(world):
    names, database, (producer, owner) = begun_with_timeouts(world, 1, 30)
    heirs = []
    frozen = Paused(database, "COMMIT", lambda: heirs.append(begun_with_timeouts(world, 1, 30)))
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        names["sell"](producer, frozen, owner, "apple")
    newer, other, (heir, new_owner) = heirs[0]
    assert new_owner == owner + 1
    newer["sell"](heir, other, new_owner, "pear")
    assert values(world[2], "sales") == ["pear"]
    assert connect(world).execute("SELECT item FROM sales").fetchall() == [("pear",)]


@pytest.mark.parametrize("world", ["postgres"], indirect=True)
def test_a_token_that_is_locked_for_long_ends_the_start(world):
    begun(world)
    locked = connect(world)
    locked.execute("SELECT * FROM tokens FOR UPDATE")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        begun_with_timeouts(world, 10, 1)
    locked.rollback()
    assert begun(world)[3] == 2, "and the next start goes on"


def test_a_database_that_was_put_back_is_noticed(world):
    names, database, producer, owner = begun(world)
    for item in "ab":
        names["sell"](producer, database, owner, item)
    backup = database.execute("SELECT token FROM tokens").fetchone()
    database.commit()
    names["sell"](producer, database, owner, "c")
    change(world, "DELETE FROM sales WHERE item = 'c'", f"UPDATE tokens SET token = '{backup[0]}'")
    with pytest.raises(InvalidTxnStateError, match="put back") as raised:
        begun(world)
    (newest,) = re.findall("store the token (\\S+) there", str(raised.value))
    change(world, "INSERT INTO sales VALUES ('c')", f"UPDATE tokens SET token = '{newest}'")
    names, database, producer, owner = begun(world)
    names["sell"](producer, database, owner, "d")
    assert values(world[2], "sales") == [*"abcd"]
    assert sorted(connect(world).execute("SELECT item FROM sales").fetchall()) == [(item,) for item in "abcd"]


def wait_until_fenced(log):
    """The first process is at epoch 0, its prepared transaction at 1, the heir at 2."""
    admin = Admin(log)
    for _ in range(30_000):
        if admin.describe_transaction("till-1").epoch == 2:
            return
        time.sleep(0.01)
    raise AssertionError("the heir does not come")


# -- Outbox -----------------------------------------------------------------------------------------


@pytest.mark.deep
def test_outbox_killed_before_every_line(world):
    cases = []
    for one in killed_at_every_line(OUTBOX, world, tables=["orders", "outbox"], topic="orders"):
        left, then, item = one["left"], one["then"], f"item-{one['line']}"
        assert then["log"] == list(dict.fromkeys(then["log"])), one
        assert (sorted(then["log"]), then["outbox"]) == (then["orders"], []), one
        assert (item in then["log"]) is (item in left["orders"]), one
        cases.append(tuple(item in left[name] for name in ("orders", "outbox", "log")))
    assert list(dict.fromkeys(cases)) == [
        (False, False, False),
        (True, True, False),
        (True, False, False),
        (True, False, True),
    ]


# -- From the database into the log -----------------------------------------------------------------


@pytest.mark.deep
def test_copy_killed_before_every_line(world):
    change(world, ITEMS[world[0]])
    rows = "INSERT INTO items (item) VALUES ('a-#'), ('b-#')"
    cases = []
    for one in killed_at_every_line(COPY, world, tables=["items"], topic="items", sells=False, before=[rows]):
        wanted = [f"{name}-{line}" for line in range(1, one["line"] + 1) for name in "ab"]
        assert one["then"]["log"] == wanted, one
        cases.append(len(one["left"]["log"]) - len(wanted))
    assert list(dict.fromkeys(cases)) == [-2, 0]


def change(world, *commands):
    database = connect(world)
    for command in commands:
        database.execute(command)
    database.commit()
    database.close()


def test_a_copy_that_slept_is_fenced(world):
    kind, where, log = world
    change(world, ITEMS[kind], "INSERT INTO items (item) VALUES ('a')")
    names = loaded(program(COPY, kind))
    producer, position = names["start"](log)
    sleepy = Paused(
        connect(world), "\n    SELECT" if kind == "postgres" else "SELECT", lambda: names["main"](log, where)
    )
    with pytest.raises(ProducerFencedError):
        names["copy"](producer, sleepy, position)
    assert values(log, "items") == ["a"]


def test_rows_of_a_transaction_that_is_open_for_long_are_not_missed(server, tmp_path):
    world = "postgres", server, str(tmp_path / "log")
    change(world, "DROP TABLE IF EXISTS items", ITEMS["postgres"])
    names = loaded(program(COPY, "postgres"))
    slow = connect(world)
    slow.execute("INSERT INTO items (item) VALUES ('early')")
    change(world, "INSERT INTO items (item) VALUES ('late')")
    names["main"](world[2], server)
    assert values(world[2], "items") == []
    slow.commit()
    names["main"](world[2], server)
    change(world, "INSERT INTO items (item) VALUES ('last')")
    names["main"](world[2], server)
    assert values(world[2], "items") == ["early", "late", "last"]
    slow.close()


def test_the_order_is_that_of_numbers(server, tmp_path):
    """Transactions 999 and 1000, or 9999 and 10000: as texts their order is the other one."""
    world = "postgres", server, str(tmp_path / "log")
    change(world, "DROP TABLE IF EXISTS items", ITEMS["postgres"])
    names = loaded(program(COPY, "postgres"))
    database = connect(world)
    database.autocommit = True
    (now,) = database.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
    database.execute(
        f"DO $$ BEGIN FOR i IN {now + 1} .. {10 ** len(str(now)) - 3} LOOP "
        "PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
    )
    for item in "abcd":
        database.execute("INSERT INTO items (item) VALUES (%s)", [item])
    rows = database.execute("SELECT written_by::text FROM items ORDER BY id").fetchall()
    assert rows != sorted(rows)
    for _ in range(2):
        names["main"](world[2], server)
    assert values(world[2], "items") == [*"abcd"]
    database.close()


# -- Prepared transactions --------------------------------------------------------------------------


def test_the_program_of_the_guide_runs_again_and_again(tmp_path):
    guide = (ROOT / "docs/guide/prepared-transactions.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    for _ in range(2):
        exec(code.replace("/tmp/", f"{tmp_path}/"), {})
    assert values(str(tmp_path / "shop-log"), "sales") == ["apple", "apple"]
    assert len(sqlite3.connect(tmp_path / "shop.db").execute("SELECT * FROM sales").fetchall()) == 2
