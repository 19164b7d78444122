"""What the commands of the mirror make of their options: without a broker."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from spark_eos import Producer
from spark_eos.cli.command import main
from spark_eos.extensions.mirror.kafka_source import GROUP_PREFIX
from spark_eos.extensions.mirror.mirroring import Mirrored
from spark_eos.extensions.mirror.options import MirrorOptions
from spark_eos.extensions.mirror.out.mirroring import MirroredOut
from spark_eos.extensions.mirror.out.options import OutOptions

BOTH = (
    (["--topic", "a,b", "--topic", "c"], {"topics": ("a", "b", "c")}),
    (["--topic-pattern", "a.*"], {"pattern": "a.*"}),
    (["--topic", "a", "--rename", "a=b"], {"topics": ("a",), "renamed": {"a": "b"}}),
    (["--topic", "a", "--groups", "g.*"], {"topics": ("a",), "groups": "g.*"}),
    (["--topic", "a", "--no-configs"], {"topics": ("a",), "copies_settings": False}),
    (["--topic", "a", "--append"], {"topics": ("a",), "may_append": True}),
    (["--topic", "a", "--accept-loss"], {"topics": ("a",), "accept_loss": True}),
    (["--topic", "a", "--interval", "7"], {"topics": ("a",), "interval_s": 7.0}),
    (["--topic", "a", "--refresh", "9"], {"topics": ("a",), "refresh_s": 9.0}),
)
INTO_THE_LOG = (
    (["--partitions", "a:0,2-4"], {"partitions": {"a": [0, 2, 3, 4]}}),
    (["--topic", "a", "--batch-bytes", "5"], {"topics": ("a",), "batch_bytes": 5}),
)
TO_KAFKA = (
    (["--reverse", "in"], {"reverses": "in"}),
    (["--topic", "a", "--replication-factor", "3"], {"topics": ("a",), "replication": 3}),
    (["--topic", "a", "--batch-records", "5"], {"topics": ("a",), "batch_records": 5}),
    (["--topic", "a", "--transaction-records", "6"], {"topics": ("a",), "limit_records": 6}),
)


class Client:
    """Stands for a client of Kafka: what it was made with."""

    def __init__(self, settings, name, *, refresh_s, tell):
        self.made_with = (settings, name, refresh_s)


class Run:
    """Stands for a mirror: what it was made with, and how it was run."""

    def __init__(self, summary):
        self._summary = summary

    def __call__(self, log, client, options, tell):
        self.client, self.options = client, options
        return self

    def run(self, stopped, *, once):
        self.once = once
        return self._summary


@pytest.fixture
def url(tmp_path):
    with Producer(f"{tmp_path}/log", {}) as producer:
        producer.send("a", b"1")
    return f"{tmp_path}/log"


def run(monkeypatch, way, *arguments):
    package, client, mirror, summary = {
        "in": ("", "kafka_source.KafkaSource", "mirroring.Mirror", Mirrored(0, 0)),
        "out": ("out.", "kafka_target.KafkaTarget", "mirroring.MirrorOut", MirroredOut(0, 0, 0)),
    }[way]
    made = Run(summary)
    monkeypatch.setattr(f"spark_eos.extensions.mirror.{package}{client}", Client)
    monkeypatch.setattr(f"spark_eos.extensions.mirror.{package}{mirror}", made)
    assert main(("mirror", way, *arguments, "--name", "m", "--bootstrap-server", "kafka:9092")) == 0
    return made


@pytest.mark.parametrize(
    ("way", "arguments", "options"),
    [
        *(("in", *case) for case in BOTH + INTO_THE_LOG),
        *(("out", *case) for case in BOTH + TO_KAFKA),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_each_option_is_the_one_that_its_name_says(url, monkeypatch, way, arguments, options):
    without = {"in": MirrorOptions, "out": OutOptions}[way]("m")
    assert asdict(run(monkeypatch, way, url, *arguments).options) == asdict(without) | options


@pytest.mark.parametrize(("way", "prefix"), [("in", GROUP_PREFIX), ("out", "")])
def test_its_client_of_kafka_has_its_name_and_its_settings(url, monkeypatch, tmp_path, way, prefix):
    """One into the log has Kafka's group of that name: so the processes of a mirror share the partitions."""
    (tmp_path / "kafka.properties").write_text("client.id=x\nbootstrap.servers=elsewhere:1\n")
    arguments = ("--topic", "a", "--refresh", "9", "--kafka-config", f"{tmp_path}/kafka.properties")
    client = run(monkeypatch, way, url, *arguments).client
    assert client.made_with == (
        {"client.id": "x", "bootstrap.servers": "kafka:9092"},
        f"{prefix}m",
        9.0,
    )


@pytest.mark.parametrize("way", ["in", "out"])
def test_it_ends_by_itself_if_it_is_told_to(url, monkeypatch, way):
    assert not run(monkeypatch, way, url, "--topic", "a").once
    assert run(monkeypatch, way, url, "--topic", "a", "--once").once


BACK = "return_to_kafka."
KAFKA, TARGET = "moving.kafka_state.KafkaState", "out.kafka_target.KafkaTarget"


@pytest.mark.parametrize(
    ("arguments", "call", "client", "given"),
    [
        (["wait", "--topic", "a,b"], "checks.wait", KAFKA, (["a", "b"], 60.0)),
        (["wait", "--timeout", "3"], "checks.wait", KAFKA, ((), 3.0)),
        (["wait", "--back", "--timeout", "3"], f"{BACK}wait_until_sent", TARGET, ((), 3.0)),
        (["group", "--group", "g"], "group.move_group", KAFKA, ("g", 60.0, False)),
        (["group", "--group", "g", "--accept-loss"], "group.move_group", KAFKA, ("g", 60.0, True)),
        (["group", "--group", "g", "--back"], f"{BACK}move_group_back", TARGET, ("g", 60.0, False)),
        (
            ["group", "--group", "g", "--back", "--accept-loss", "--timeout", "3"],
            f"{BACK}move_group_back",
            TARGET,
            ("g", 3.0, True),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_moves_asks_kafka_as_the_mirror_of_that_name(url, monkeypatch, arguments, call, client, given):
    made = []

    def moved(_log, kafka, name, *rest, **named):
        made.append((kafka.made_with, name, (*rest, *named.values())))
        return 0 if arguments[0] == "wait" else []

    monkeypatch.setattr(f"spark_eos.extensions.mirror.{client}", Client)
    monkeypatch.setattr(f"spark_eos.extensions.mirror.moving.{call}", moved)
    way, *options = arguments
    assert main(("mirror", way, url, "--name", "m", "--bootstrap-server", "kafka:9092", *options)) == 0
    group = f"{GROUP_PREFIX}m" if client is KAFKA else "m"
    assert made == [(({"bootstrap.servers": "kafka:9092"}, group, 30.0), "m", given)]
