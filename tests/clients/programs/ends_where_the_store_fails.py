"""Ends while records cannot get into the log, for one of these reasons: `REASON URL NUMBER`."""

import atexit
import signal
import sys
import threading

from spark_eos import Producer
from spark_eos.clients import at_exit
from spark_eos.errors import StoreFullError
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.storage import open_store
from spark_eos.testing import FaultyStore

kept = []
"""To the end of the process."""


def new_producer(**settings):
    kept.append(Producer(log, **settings))
    return kept[-1]


def hangs():
    """One batch is on its way for ever, three records wait; each says what became of it."""
    at_exit.WAIT_S = 0.1
    producer = new_producer()
    producer.send("t", b"first").get()
    began = threading.Event()

    def hang(operation, _):
        if operation == "create" and threading.current_thread().name == "eoslog-producer":
            began.set()
            threading.Event().wait()

    def tell(error, sent):
        print(type(error).__name__, sent)

    store.before = hang
    producer.send("t", b"second", on_delivery=tell)
    began.wait()
    for number in range(3):
        producer.send("t", b"%d" % number, on_delivery=tell)


def hangs_and_is_interrupted():
    at_exit.WAIT_S = 600
    producer = new_producer()
    producer.send("t", b"first").get()

    def hang(*_):
        if threading.current_thread().name == "eoslog-producer":
            threading.Event().wait()

    def stop(*_):
        raise KeyboardInterrupt

    store.before = hang
    producer.send("t", b"second")
    signal.signal(signal.SIGALRM, stop)
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0.2)


def is_full():
    store.inject(StoreFullError("full"), "upload", "data/*", times=None)
    producer = new_producer()
    for number in range(int(sys.argv[3])):
        producer.send("t", b"%d" % number)


def is_full_for_a_later_handler():
    producer = new_producer()
    producer.send("t", b"first").get()

    def last():
        store.inject(StoreFullError("full"), "upload", "data/*", times=None)
        producer.send("t", b"late")

    atexit.unregister(at_exit._end)
    atexit.register(last)
    atexit.register(at_exit._end)


def was_full():
    store.inject(StoreFullError("full"), "upload", "data/*", times=None)
    producer = new_producer(linger_ms=0)
    future = producer.send("t", b"one")
    while not future.done():
        pass
    store.heal()
    producer.send("t", b"two").get()


store = FaultyStore(open_store(sys.argv[2]))
log = Log.open_or_create(store, retry=Retry(deadline_s=0))
log.ensure_topic("t")
globals()[sys.argv[1]]()
