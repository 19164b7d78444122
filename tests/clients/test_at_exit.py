"""What a program that ends without `flush` or `close` has sent: real processes."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import weakref

import pytest

from spark_eos import Producer, read_arrow
from spark_eos.clients import at_exit

RECORDS = 1_000
SENDS = f"for number in range({RECORDS}): producer.send('t', b'%d' % number)\n"
PLAIN = f"from spark_eos import Producer\nproducer = Producer(url)\n{SENDS}"
FAILING = """
import sys
from spark_eos import Producer
from spark_eos.clients import at_exit
from spark_eos.errors import StoreFullError
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.storage import open_store
from spark_eos.testing import FaultyStore
store = FaultyStore(open_store(url))
log = Log.open_or_create(store, retry=Retry(deadline_s=0))
log.ensure_topic("t")
"""


def run(tmp_path, program, *, status=0):
    """The values in the log, and what the program has written to standard error."""
    url = str(tmp_path / "log")
    file = tmp_path / "program.py"
    file.write_text(f"url = {url!r}\n{textwrap.dedent(program)}")
    ended = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == status, ended.stderr
    found = read_arrow(url, "t").read_all()["value"].to_pylist() if (tmp_path / "log").exists() else []
    return found, ended.stderr, ended.stdout


def everything(found, more=()):
    return sorted(found) == sorted([*(b"%d" % number for number in range(RECORDS)), *more])


ENDS = {
    "its last line": (PLAIN, 0, ""),
    "an error": (f"{PLAIN}1 / 0", 1, "ZeroDivisionError"),
    "sys.exit": (f"{PLAIN}import sys; sys.exit(3)", 3, ""),
    "after an acknowledged record": (PLAIN.replace(SENDS, f"producer.send('t', b'x').get()\n{SENDS}"), 0, ""),
    "the classes of kafka-python": (
        f"from spark_eos.kafka import KafkaProducer\nproducer = KafkaProducer(bootstrap_servers=url)\n{SENDS}",
        0,
        "",
    ),
    "without a reference": (
        f"""
import gc
from spark_eos import Producer
def main():
    producer = Producer(url, linger_ms=60_000)
    {SENDS}
main()
gc.collect()
""",
        0,
        "",
    ),
    "asyncio": (
        f"""
import asyncio
from spark_eos import AIOProducer
async def main():
    producer = AIOProducer(url)
    await producer.start()
    for number in range({RECORDS}): await producer.send('t', b'%d' % number)
asyncio.run(main())
""",
        0,
        "",
    ),
    "another thread goes on": (
        f"""
import threading
from spark_eos import Producer
producer = Producer(url)
producer.send('t', b'x').get()
def work():
    threading.main_thread().join()
    {SENDS}
threading.Thread(target=work).start()
""",
        0,
        "",
    ),
    "a handler that comes last sends": (
        f"""
import atexit
def last():
    for number in range(3): producer.send('t', b'last %d' % number)
atexit.register(last)
{PLAIN}""",
        0,
        "",
    ),
    "a batch is just handed on": (
        f"""
import threading
from spark_eos import Producer
from spark_eos.clients.producer.accumulator import TopicBuffer
take, began = TopicBuffer._take, threading.Event()
def slowly(*given):
    began.set()
    threading.Event().wait(0.3)
    return take(*given)
TopicBuffer._take = slowly
producer = Producer(url, linger_ms=0, batch_size=1_000_000)
with producer._lock:  # All in one batch.
    {SENDS}
began.wait()
""",
        0,
        "",
    ),
    "no thread can be started": (
        f"""
{PLAIN}
import atexit, threading
def start(_): raise RuntimeError("can't create new thread at interpreter shutdown")
atexit.register(lambda: setattr(threading.Thread, 'start', start))
""",
        0,
        "",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_program_that_ends_sends_what_waits(tmp_path, name):
    program, status, said = ENDS[name]
    found, errors, _ = run(tmp_path, program, status=status)
    others = [value for value in found if not value.isdigit()]
    assert everything(found, others), len(found)
    assert len(others) == {"a handler that comes last sends": 3}.get(name, len({*others} & {b"x"}))
    assert said in errors
    assert "spark_eos:" not in errors


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_of_multiprocessing_sends_its_own_records_and_no_others(tmp_path, method):
    program = f"""
import multiprocessing
from spark_eos import Producer
def work():
    producer = Producer(url)
    {SENDS}
if __name__ == "__main__":
    above = Producer(url, linger_ms=60_000)
    above.send('t', b'above')
    child = multiprocessing.get_context({method!r}).Process(target=work)
    child.start()
    child.join()
    print(child.exitcode)
"""
    found, errors, told = run(tmp_path, program)
    assert everything(found, [b"above"])
    assert (told, errors) == ("0\n", "")


def test_a_forked_child_that_ends_sends_nothing_of_its_parent(tmp_path):
    program = f"""
import os, sys
{PLAIN.replace("(url)", "(url, linger_ms=60_000, batch_size=1_000_000)")}
if not os.fork():
    sys.exit()
os.wait()
print(producer._sender.taken.buffers, len(producer._waiting.buffers))
"""
    found, errors, told = run(tmp_path, program)
    assert everything(found)
    assert (told, errors) == ("{} 1\n", "")


def test_the_end_waits_for_a_bounded_time_and_says_what_is_left(tmp_path):
    """The store hangs: one batch is on its way for ever, one waits."""
    program = f"""{FAILING}
import threading
at_exit.WAIT_S = 0.1
producer = Producer(log)
producer.send("t", b"first").get()
began = threading.Event()
def hang(operation, name):
    if operation == "create" and threading.current_thread().name == "eoslog-producer":
        began.set()
        threading.Event().wait()
store.before = hang
tell = lambda error, sent: print(type(error).__name__, sent)
producer.send("t", b"second", on_delivery=tell)
began.wait()
for number in range(3): producer.send("t", b"%d" % number, on_delivery=tell)
"""
    found, errors, told = run(tmp_path, program)
    assert found == [b"first"]
    assert sorted(told.split("\n")) == ["", "CommitOutcomeUnknownError None", *["KafkaTimeoutError None"] * 3]
    assert errors.startswith(
        "spark_eos: the process ends, and 4 records that were sent did not get into the log"
    )


def test_an_interrupt_ends_the_wait(tmp_path):
    program = f"""{FAILING}
import atexit, signal, threading
at_exit.WAIT_S = 600
producer = Producer(log)
producer.send("t", b"first").get()
def hang(operation, name):
    if threading.current_thread().name == "eoslog-producer":
        threading.Event().wait()
store.before = hang
producer.send("t", b"second")
def stop(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, stop)
atexit.register(signal.setitimer, signal.ITIMER_REAL, 0.2)
"""
    found, errors, _ = run(tmp_path, program)
    assert found == [b"first"]
    assert "the process ends, and 1 record that was sent did not get into the log" in errors


def test_the_end_says_what_failed(tmp_path):
    program = f"""{FAILING}
store.inject(StoreFullError("full"), "upload", "data/*", times=None)
producer = Producer(log)
{SENDS}
"""
    found, errors, _ = run(tmp_path, program)
    assert found == []
    assert f"the process ends, and {RECORDS} records that were sent did not get into the log" in errors
    assert "full" in errors


def test_the_end_says_what_failed_long_before(tmp_path):
    program = f"""{FAILING}
store.inject(StoreFullError("full"), "upload", "data/*", times=None)
producer = Producer(log, linger_ms=0)
future = producer.send("t", b"one")
while not future.done(): pass
store.heal()
producer.send("t", b"two").get()
"""
    found, errors, _ = run(tmp_path, program)
    assert found == [b"two"]
    assert "the process ends, and 1 record that was sent did not get into the log" in errors


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("", "the open transaction of transactional.id 'app' is not committed"),
        ("producer.flush()", "the open transaction of transactional.id 'app' is not committed"),
        ("del producer; gc.collect()", "is gone without close, and the open transaction"),
        ("producer.commit_transaction()", ""),
        ("producer.abort_transaction()", ""),
        ("producer.close()", ""),
    ],
)
def test_the_end_commits_no_transaction_and_says_so(tmp_path, then, said):
    program = f"""
import gc
from spark_eos import Producer
producer = Producer(url, transactional_id="app")
producer.init_transactions()
producer.begin_transaction()
producer.send('t', b'one')
{then}
"""
    found, errors, _ = run(tmp_path, program)
    assert found == ([b"one"] if "commit" in then else [])
    assert said in errors
    assert errors.count("spark_eos:") == bool(said)


def test_a_producer_that_nobody_has_is_not_kept_for_the_end():
    producer = Producer("memory://not-kept-for-the-end", transactional_id="app")
    producer.init_transactions()
    known = weakref.ref(producer)
    assert producer in at_exit._watched
    del producer
    gc.collect()
    assert known() is None
