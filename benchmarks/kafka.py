"""A Kafka broker of one's own: KRaft, one node, on loopback with free ports; stopped at the end."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

from benchmarks import jars
from benchmarks.jars import Missing
from verification.cloud_servers import free_port

__all__ = ["Broker"]

_SETTINGS = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
message.max.bytes=10485760
log.segment.delete.delay.ms=1000
"""
"""A broker's defaults, but for what one node needs, and that the bytes of a deleted topic are gone a second later.

It does not fsync: that is Kafka's default as well.
"""


class Broker:
    """A broker that runs until `stop`. Raises `jars.Missing` where there is no Java or no Maven.

    ``more`` are settings of the broker, as lines of its file.
    """

    def __init__(self, folder: Path, *more: str) -> None:
        java = shutil.which("java", path=_java_path())
        if java is None:
            raise Missing("Kafka needs Java 17 or newer, and there is none: set JAVA_HOME")
        self._classpath = os.pathsep.join(map(str, jars.fetch("kafka", jars.BROKER, alone=False)))
        self._java = java
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        self._port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._settings = settings = folder / "server.properties"
        text = _SETTINGS.format(port=self._port, controller=controller, folder=self.data)
        settings.write_text("\n".join((text, *more, "")))
        # Not with a dash at its beginning, which the tool would take for an option.
        cluster = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        self._output = folder / "broker.log"
        formatted = self.tool(
            # With "=": an id may begin with a hyphen, which would be read as an option.
            "kafka.tools.StorageTool",
            "format",
            "--standalone",
            f"--cluster-id={cluster}",
            "-c",
            settings,
        )
        formatted.check_returncode()
        self.start()

    def start(self) -> None:
        """Start it, also after `kill`, with what it had on its disk."""
        with self._output.open("wb") as output:
            command = self.command("kafka.Kafka", self._settings, heap="1g")
            self._process = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: S603
        try:
            self._wait(self._port)
        except BaseException:
            self.stop()
            raise

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        """The process, whose processor time counts with Spark's."""
        return self._process.pid

    def tool(self, name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's Java programs to its end."""
        command = self.command(name, *arguments)
        return subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic, and wait until the broker serves all its partitions.

        A producer that comes too early has its first batches refused and later ones taken, and then gets no
        further: out of order.
        """
        from confluent_kafka import KafkaException, TopicPartition

        kafka, admin = self._admin()
        for future in admin.create_topics([kafka.NewTopic(topic, partitions, 1)]).values():
            future.result()
        wanted = {TopicPartition(topic, number): kafka.OffsetSpec.latest() for number in range(partitions)}
        end = time.monotonic() + 300
        while True:
            try:
                for asked in admin.list_offsets(wanted).values():
                    asked.result()
                return
            except KafkaException:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def delete(self, *topics: str) -> None:
        """Delete topics; the broker frees their bytes later."""
        _, admin = self._admin()
        for future in admin.delete_topics(list(topics)).values():
            future.result()

    def _admin(self) -> tuple[Any, Any]:
        """Its module, which exports names without saying so and without types; and a client.

        A new one each time: one that was there before a topic goes on not knowing its leaders.
        """
        from confluent_kafka import admin

        module: Any = admin
        return module, module.AdminClient({"bootstrap.servers": self.address})

    def size(self, topic: str) -> int:
        """Bytes of the topic's records on the disk, without the indexes, which are allocated in advance."""
        logs = self.data.glob(f"{topic}-*/*.log")
        return sum(path.stat().st_size for path in logs)

    def stop(self) -> None:
        """End the broker."""
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def command(self, name: str, *arguments: object, heap: str = "256m") -> list[str]:
        """The command line of one of Kafka's Java programs."""
        return [self._java, f"-Xmx{heap}", "-cp", self._classpath, name, *map(str, arguments)]

    def _wait(self, port: int) -> None:
        end = time.monotonic() + 300
        while time.monotonic() < end:
            if self._process.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.2)
        raise Missing(f"the Kafka broker did not start: {self._output.read_text()[-2000:]}")


def _java_path() -> str | None:
    home = os.environ.get("JAVA_HOME")
    path = os.environ.get("PATH", "")
    return f"{home}/bin{os.pathsep}{path}" if home else path
