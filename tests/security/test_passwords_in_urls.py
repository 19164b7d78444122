"""The password of a store's URL is in no error, no line that is logged, and no output of a command."""

from __future__ import annotations

import ast
import logging
import pickle
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

import spark_eos
from spark_eos import Admin, Log, Producer, errors, read_arrow, register_store
from spark_eos.cli.command import main
from spark_eos.errors import (
    CorruptRecordError,
    EosLogError,
    NotALogError,
    StoreFullError,
    StorePermissionError,
)
from spark_eos.errors.hidden import safe_text, safe_url
from spark_eos.storage import MemoryStore, Settings, open_store
from spark_eos.testing import FaultyStore

SECRETS = ("sesame", "s3cret")
_NUMBERS = count()


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("/data/log", "/data/log"),
        ("/data/a@b?c#d", "/data/a@b?c#d"),
        ("s3://bucket/path", "s3://bucket/path"),
        ("s3://key:secret@bucket/path?X-Amz-Signature=secret#secret", "s3://bucket/path"),
        ("toy://user@host/p@th", "toy://host/p@th"),
        ("abfss://container@account.dfs.core.windows.net/log", "abfss://container@account.dfs.core.windows.net/log"),
        *((f"{scheme}://c@a.net/log",) * 2 for scheme in ("abfs", "wasb", "wasbs")),
        ("abfss://user:secret@account.dfs.core.windows.net/log", "abfss://account.dfs.core.windows.net/log"),
        ("https://a:b@c", "https://c"),
        ("s3://AKIA:half/half@bucket/path", "s3://bucket/path"),
        ("toy://host:9000/p@th", "toy://host:9000/p@th"),
        ("toy://[::1]:9000/p@th", "toy://[::1]:9000/p@th"),
        ("toy://a:b c@host/p th", "toy://host/p th"),
    ],
)  # fmt: skip
def test_a_url_is_shown_without_what_may_be_secret(url, label):
    assert safe_url(url) == label


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("toy://a:b@h/p?sig=x is not a log", "toy://h/p is not a log"),
        ("'toy://a:b@h/log/_log/0.avro': damaged", "'toy://h/log/_log/0.avro': damaged"),
        ("toy://h/p?sig=x: no; see https://h/a#b.", "toy://h/p: no; see https://h/a#b."),
        ("toy://a:b'c@h, toy://a:b@c@h/backups#name", "toy://h, toy://h/backups#name"),
        ("http://localhost:9000 and a@b", "http://localhost:9000 and a@b"),
        ("abfss://c@a.net/x or s3://AKIA:half/half@b/p", "abfss://c@a.net/x or s3://b/p"),
        ("postgresql://a:b@h/db refuses", "postgresql://h/db refuses"),
        ("no url: /v1?token=x/tables (Caused by y)", "no url: /v1 (Caused by y)"),
        ("'/v1?a=b&c=d', is a == b? c=d", "'/v1', is a == b? c=d"),
    ],
)
def test_sentences_are_shown_without_it(text, shown):
    assert safe_text(text) == shown
    assert str(EosLogError(text)) == shown


@pytest.mark.parametrize(
    "error",
    [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, EosLogError)],
    ids=lambda one: one.__name__,
)
def test_each_error_hides_it(error):
    found = error("toy://teller:sesame@shelf/log is not there")
    assert str(found) == "toy://shelf/log is not there"
    assert "sesame" not in repr(found) + str(pickle.loads(pickle.dumps(found))) + str(found.args)


class Vault(MemoryStore):
    """A store whose URL has a password, and that opens by it."""

    def __init__(self, url):
        super().__init__()
        self.url = url


@pytest.fixture
def vault():
    """The URL, and the store, which fails on demand."""
    scheme = f"vault{next(_NUMBERS)}"
    url = f"{scheme}://teller:sesame@shelf/log?token=s3cret"
    store = FaultyStore(Vault(url))
    register_store(scheme, lambda _: store)
    return url, store


def hides(text):
    found = [text[max(text.find(s) - 60, 0) : text.find(s) + 30] for s in SECRETS if s in text]
    assert found == []
    return True


def calls(url):
    """What users do, in turn."""
    yield lambda: Log.create(url)
    yield lambda: Admin(url).create_topic("orders", 1)
    yield lambda: Admin(url).create_topic("orders", 1)
    yield lambda: Admin(url).describe_topic("none")
    yield lambda: Producer(url, {"transactional.id": "till"}).init_transactions()
    yield lambda: Producer(url).send("orders", b"x").result()
    yield lambda: read_arrow(url, "none")
    yield lambda: read_arrow(url, "orders", as_of=99)
    yield lambda: Admin(url).mend_clock()
    yield lambda: open_store(url, Settings({"s3.region": "x"}))


COMMANDS = ("describe", "lag", "status", "verify", "history", "audit", "topics", "groups", "clock", "expire")


def used(url):
    """Use the log there, and return all that errors say."""
    found = []
    for call in calls(url):
        try:
            call()
        except EosLogError as error:
            found.append(f"{error!r} {error}")
    for words in COMMANDS:
        with suppress(SystemExit):  # Of a usage error: not all of them have a log as their first argument.
            main([words, url])
    return " ".join(found)


def test_a_place_without_a_log(vault, capsys):
    url, _ = vault
    with pytest.raises(NotALogError, match="://shelf/log is not a log"):
        Admin(url).list_topics()
    assert main(["describe", url]) == 1
    assert hides(capsys.readouterr().err)


@pytest.mark.parametrize("what", ["read", "list", "create"])
@pytest.mark.parametrize("error", [StorePermissionError, StoreFullError, CorruptRecordError])
def test_no_error_of_a_store_shows_it(vault, error, what, capsys, caplog):
    caplog.set_level(logging.DEBUG)
    url, store = vault
    Admin(url).create_topic("other", 1)
    store.inject(error(f"no {what} of {url}/_log/0.avro"), what, "*", times=None)
    told = used(url)
    assert "://shelf/log" in told
    assert hides(told)
    printed = capsys.readouterr()
    assert hides(printed.out + printed.err + caplog.text)


def test_no_error_about_a_log_shows_it(vault, capsys, caplog):
    caplog.set_level(logging.DEBUG)
    url, store = vault
    Admin(url).create_topic("other", 1)
    told = used(url)
    for info in [*store.list("_log/")]:
        store.overwrite(info.name, b"damage")
    told += used(url)
    assert "://shelf/log" in told
    assert hides(told)
    printed = capsys.readouterr()
    assert hides(printed.out + printed.err + caplog.text)


def test_what_is_printed_of_settings_has_none():
    assert repr(Settings({"data.url": "toy://teller:sesame@shelf/data?token=s3cret"})) == (
        "Settings(data.url='toy://shelf/data')"
    )


def test_what_is_logged_names_no_url_as_it_is():
    """A line of the log is no error: each says by itself which URL may be shown."""
    seen, raw = 0, []
    for path in Path(spark_eos.__file__).parent.rglob("*.py"):
        code = path.read_text("utf-8")
        for node in ast.walk(ast.parse(code)) if "_LOG." in code else ():
            is_call = isinstance(node, ast.Call) and ast.unparse(node.func).startswith("_LOG.")
            for argument in node.args[1:] if is_call else ():
                text = ast.unparse(argument)
                seen += "safe_url(" in text
                if "url" in text and "safe_url(" not in text and text != "self.url":
                    raw.append(f"{path.name}: {text}")
    assert raw == []
    assert seen > 4
