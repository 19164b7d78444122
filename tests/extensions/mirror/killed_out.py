"""Mirrors to Kafka that are killed by SIGKILL before each of their steps, each time in a process of its own.

``python killed_out.py FOLDER ADDRESS``: for each number of a step there is a log in ``FOLDER``, and topics with that
number, for a death before that step; then the same command runs there to its end. Prints how many steps there are.

``python killed_out.py --freeze ARGUMENTS…``: the command, which is stopped by SIGSTOP before its second commit.
"""

from __future__ import annotations

import os
import signal
import sys

from spark_eos import Admin, Producer
from spark_eos.cli.command import main
from spark_eos.extensions.mirror.out.kafka_target import KafkaTarget
from spark_eos.extensions.mirror.out.opening import Opening
from spark_eos.extensions.mirror.out.producer import TransactionalProducer
from spark_eos.log.log import Log

STEPS = (
    (KafkaTarget, "create"),
    (Opening, "note"),
    (TransactionalProducer, "start"),
    (TransactionalProducer, "commit"),
)


def dying(at):
    """Steps count before they are done, commits and the fence also after that; the process dies at number ``at``."""
    count = [0]

    def step():
        if count[0] == at:
            os.kill(os.getpid(), signal.SIGKILL)
        count[0] += 1

    def wrapped(method):
        def call(*arguments, **named):
            if method.__name__ != "start":
                step()
            found = method(*arguments, **named)
            if method.__name__ in {"commit", "start"}:
                step()
            return found

        return call

    for owner, name in STEPS:
        setattr(owner, name, wrapped(getattr(owner, name)))


def run(arguments, at=None):
    """The status of a child that runs the command, and dies at step ``at``."""
    child = os.fork()
    if not child:
        if at is not None:
            dying(at)
        os._exit(main(arguments))
    return os.waitpid(child, 0)[1]


def prepared(url, topic):
    """A log with two transactions over two partitions, and an aborted one between them."""
    Log.create(url)
    Admin(url).create_topic(topic, partitions=2)
    with Producer(url, {"transactional.id": "x"}) as producer:
        producer.init_transactions()
        for number in range(3):
            producer.begin_transaction()
            for at in range(4):
                producer.send(topic, b"%d.%d" % (number, at), partition=at % 2)
            (producer.abort_transaction if number == 1 else producer.commit_transaction)()


def every_death(folder, address):
    number = 0
    while True:
        url, topic = f"{folder}/{number}", f"dead.{number}"
        prepared(url, topic)
        command = ["mirror", "out", url, "--name", topic, "--topic", topic, "--bootstrap-server", address]
        command += ["--once", "--batch-records", "1"]
        died = run(command, number)
        if died == 0:
            return number
        assert os.WTERMSIG(died) == signal.SIGKILL, died
        assert run(command) == 0
        number += 1


def freeze(arguments):
    commit, count = TransactionalProducer.commit, [0]

    def stopping(self):
        count[0] += 1
        if count[0] == 2:
            os.kill(os.getpid(), signal.SIGSTOP)
        commit(self)

    TransactionalProducer.commit = stopping
    return main(arguments)


if __name__ == "__main__":
    if sys.argv[1] == "--freeze":
        sys.exit(freeze(sys.argv[2:]))
    sys.stdout.write(f"{every_death(*sys.argv[1:])}\n")
