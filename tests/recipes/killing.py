"""Runs a program of the guide in children, each of which is killed before one line of it, and says what is there then.

``python -m tests.recipes.killing``, with a plan as JSON on its input; answers are lines of JSON. A process of its own,
because its children are forked: nothing but modules is loaded in it.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from contextlib import suppress

import psycopg

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import NotALogError
from spark_eos.protocol.encoding.schema import newest
from spark_eos.protocol.encoding.snapshots import schemas


def loaded(code):
    """The program."""
    names = {"__name__": "recipe"}
    exec(compile(code, "recipe", "exec"), names)
    return names


def in_a_child(work):
    """What ``work()`` returns, or None if it was killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, json.dumps(work()).encode())
        except BaseException as error:  # noqa: BLE001
            os.write(write, json.dumps(f"failed: {error!r}").encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return None
    answer = json.loads(told)
    assert not str(answer).startswith("failed"), answer
    return answer


def run(code, arguments, kill_at=0):
    """Run ``main`` of the program; killed before the line of that number, counted as they come."""
    names = loaded(code)
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_filename != "recipe":
            return None
        if event == "line":
            lines += 1
            if lines == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    if kill_at:
        sys.settrace(trace)
    try:
        names["main"](*arguments)
    finally:
        sys.settrace(None)
    return lines


def look(plan):
    """What the tables have, and what a ``read_committed`` reader sees in the topic."""
    database = (sqlite3 if plan["kind"] == "sqlite" else psycopg).connect(plan["where"])
    found = {}
    for table in plan["tables"]:
        try:
            found[table] = sorted(row[0] for row in database.execute(f"SELECT item FROM {table}").fetchall())
        except (sqlite3.Error, psycopg.Error):
            database.rollback()
            found[table] = []
    database.close()
    return {**found, "log": seen(plan)}


def seen(plan):
    try:
        if plan["topic"] not in Admin(plan["log"]).list_topics():
            return []
    except NotALogError:
        return []
    consumer = Consumer(plan["log"], {"auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(plan["topic"], 0)])
    return [record.value.decode().removeprefix("ordered: ") for record in consumer.poll()]


def warm(plan):
    """Load what the program loads, and no more: each child would load it again."""
    folder = tempfile.mkdtemp()
    mine = {**plan, "log": f"{folder}/log"}

    def used():
        Producer(mine["log"], {"transactional.id": "warm"}).init_transactions()
        seen(mine)
        return sorted(sys.modules)

    for name in in_a_child(used):
        with suppress(ImportError):
            importlib.import_module(name)
    newest()
    schemas()
    shutil.rmtree(folder)


def main():
    plan = json.load(sys.stdin)
    warm(plan)
    kill_at, killed = 1, True
    while killed:
        arguments = [plan["log"], plan["where"]]
        more = [[f"item-{kill_at}"]] if plan["sells"] else []

        def attempt():
            for command in plan["before"]:
                change(plan, command.replace("#", str(kill_at)))  # noqa: B023
            return run(plan["code"], arguments + more, kill_at)  # noqa: B023

        def recover():
            left = look(plan)
            run(plan["code"], arguments + ([[]] if more else []))  # noqa: B023
            return {"left": left, "then": look(plan)}

        killed = in_a_child(attempt) is None
        print(json.dumps({"line": kill_at, **in_a_child(recover)}))  # noqa: T201
        kill_at += 1


def change(plan, command):
    database = (sqlite3 if plan["kind"] == "sqlite" else psycopg).connect(plan["where"])
    database.execute(command)
    database.commit()
    database.close()
    return True


if __name__ == "__main__":
    main()
