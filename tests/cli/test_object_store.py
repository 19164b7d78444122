"""``eoslog`` and the clients on a log in a bucket: settings by file and by config, and nothing that is not known."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.clients.opening import store_settings
from spark_eos.config.consumer import consumer_config
from spark_eos.config.producer import producer_config
from spark_eos.errors import ConfigError
from verification.object_server import ObjectServer, serving

URL = "gs://bucket/log"


@pytest.fixture(scope="module")
def settings():
    with serving(ObjectServer({"bucket": {}})) as server:
        found = {"gcs.service.host": server.address, "gcs.oauth2.token": "kept-from-everybody"}
        with Producer(URL, found) as producer:
            producer.send("t", "1").result()
        yield found


@pytest.fixture
def config(settings, tmp_path):
    path = tmp_path / "store.properties"
    path.write_text("# a comment\n\n" + "".join(f"{name} = {value}\n" for name, value in settings.items()))
    return str(path)


@pytest.mark.parametrize(
    "command",
    [["topics"], ["describe", "t"], ["dump"], ["groups", "list"], ["transactions", "list"], ["configs"], ["history"],
     ["verify"], ["maintain", "--dry-run"], ["vacuum", "--dry-run"], ["expire"]],
    ids=" ".join,
)  # fmt: skip
def test_commands_take_a_file_of_settings(command, config, capsys):
    first, *rest = command
    arguments = [*command, URL] if first in {"groups", "transactions"} else [first, URL, *rest]
    assert main([*arguments, "--command-config", config]) == 0
    shown = capsys.readouterr()
    assert "kept-from-everybody" not in shown.out + shown.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gcs.service.hosts=x", "did you mean gcs.service.host"),
        ("just words", "line 1"),
        ("x=1", "unknown object store setting 'x'"),
    ],
)
def test_files_that_are_none(text, words, tmp_path, capsys):
    path = tmp_path / "store.properties"
    path.write_text(text)
    with pytest.raises(SystemExit):
        main(["topics", URL, "--command-config", str(path)])
    assert words in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["topics", URL, "--command-config", str(tmp_path / "missing")])
    assert "cannot be read" in capsys.readouterr().err


def test_clients_take_settings(settings):
    with Consumer(URL, {"auto.offset.reset": "earliest", **settings}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert [record.value for record in consumer.poll(timeout_ms=0)] == [b"1"]
    assert Admin(URL, settings).list_topics() == ["t"]
    for parse in (producer_config, consumer_config):
        assert parse(settings) == parse({})
    assert dict(store_settings({"client.id": "x", **settings})) == settings


def test_clients_refuse_what_is_no_setting():
    with pytest.raises(ConfigError, match=r"did you mean gcs\.oauth2\.token"):
        Producer(URL, {"gcs.oauth.token": "x"})
    with pytest.raises(ConfigError, match=r"unknown object store setting 'client\.id'"):
        Admin(URL, {"client.id": "x"})
    with pytest.raises(ConfigError, match="is none of s3://bucket/log"):
        Consumer("s3://bucket/log", {"gcs.oauth2.token": "x"})
