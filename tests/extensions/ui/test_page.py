"""The page's questions and who may ask them."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from contextlib import ExitStack, suppress
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.errors import (
    ConfigError,
    ProducerFencedError,
    StorePermissionError,
    StoreUnavailableError,
)
from spark_eos.extensions.ui.answers import settings
from spark_eos.extensions.ui.app import create_app
from spark_eos.extensions.ui.areas import groups, health, storage
from spark_eos.extensions.ui.areas.health import job_of
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.security import COOKIE, Access
from spark_eos.log import paths
from spark_eos.maintenance.verify.report import FindingCollector, Verdict
from spark_eos.protocol.actions import JoinGroup
from spark_eos.protocol.rules.notes import SOUND, VERIFY, note_actions
from spark_eos.serving.address import url_of
from spark_eos.storage import MemoryStore
from spark_eos.testing import FaultyStore
from tests.extensions.ui.browsing import served
from tests.log.fakes import FakeClock, Waiting

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # It would rather have httpx2.
    from starlette.testclient import TestClient, WebSocketDisconnect

TOKEN = "a-token-of-some-length"
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def log():
    made = Log.create(MemoryStore())
    admin = Admin(made)
    admin.create_topic("orders", 2)
    admin.create_topic("json", config={"value.format": "json"})
    with Producer(made, {"linger.ms": 60_000}) as producer:  # A batch for each topic.
        for number in range(20):
            producer.send("orders", f"{HOSTILE} {number}".encode(), key=f"k{number}".encode(), partition=0)
        producer.send("json", {"a": 1})
    return made


@pytest.fixture
def follower(log):
    made = Follower(log.store, clock=Waiting())  # What it remembers for seconds does not grow old meanwhile.
    yield made
    made.close()


def client(follower, *, allow_writes=False, **access):
    app = create_app([follower], Access(**access), allow_writes=allow_writes)
    return TestClient(app, base_url="http://localhost")


@pytest.fixture
def page(follower):
    found = client(follower)
    found.headers["x-csrf-token"] = found.get("/session").json()["csrf"]
    return found


def ask(page, area, **fields):
    return page.post(f"/api/{area}", json=fields)


# -- Security -----------------------------------------------------------------------------------------------


def test_every_answer_has_safe_headers(page):
    for path, host in (
        *(("/", "localhost"), ("/static/page.css", "localhost"), ("/session", "localhost")),
        *(("/nowhere", "localhost"), ("/", "evil.example")),
    ):
        headers = page.get(path, headers={"host": host}).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["permissions-policy"] == "camera=(), geolocation=(), microphone=()"
        assert set(headers["content-security-policy"].split("; ")) == {
            *("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'"),
            *("connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"),
            *("require-trusted-types-for 'script'", "trusted-types 'none'"),
        }


def test_files_are_those_of_the_page_alone(page):
    for name in ("..%2fapp.py", "%2e%2e/app.py", "js%2f..%2f..%2fapp.py", "js", "nothing.js"):
        assert page.get(f"/static/{name}").status_code == 404, name


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example", "", "localhost:x", "a b"),
        *("localhost/static/", "localhost?x", "localhost#x", "x@localhost"),
    ],
)
def test_other_hosts_are_refused_for_reads_too(page, host):
    assert page.get("/session", headers={"host": host}).status_code == 421
    assert page.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:9", "[::1]:7"])
def test_own_hosts(page, host):
    assert page.get("/session", headers={"host": host}).status_code == 200


def test_two_host_headers_are_refused(page):
    assert page.get("/session", headers=[("host", "localhost"), ("host", "localhost")]).status_code == 421


def test_names_of_the_host():
    named = Access(names=["Logs.example"])
    assert named.is_own_host("logs.example:443")
    assert not named.is_own_host(f"{socket.gethostname()}.example")
    assert Access(TOKEN, "0.0.0.0").is_own_host(socket.gethostname())


def test_web_sockets_are_refused(page):
    with pytest.raises(WebSocketDisconnect) as found, page.websocket_connect("/events"):
        pass
    assert found.value.code == 1008


def test_forged_requests_are_refused(page):
    assert page.get("/api/overview").status_code == 405
    assert page.post("/api/overview", json={}, headers={"origin": "null"}).status_code == 403
    assert page.get("/session", headers={"origin": "http://evil.example"}).status_code == 403
    assert page.get("/session", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert page.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200
    assert page.post("/api/overview", json={}, headers={"x-csrf-token": "no"}).status_code == 403
    assert page.post("/api/overview", json={}, headers={"origin": "http://evil.example"}).status_code == 403
    assert page.post("/api/overview", json={}, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert page.get("/session", headers={"sec-fetch-site": "same-site"}).status_code == 403
    assert (
        page.post("/login", data={"token": "t"}, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    )
    assert page.post("/api/overview", json={}, headers={"origin": "http://localhost"}).status_code == 200


def test_a_token_is_asked_for(follower):
    page = client(follower, token=TOKEN, host="0.0.0.0")
    assert page.get("/", follow_redirects=False).headers["location"] == "/login"
    for path in ("/session", "/events"):
        assert page.get(path).status_code == 401
    assert page.post("/api/overview", json={}).status_code == 401
    assert page.get("/static/page.css").status_code == 200
    assert page.post("/login", data={"token": "wrong"}).status_code == 401
    done = page.post("/login", data={"token": TOKEN}, follow_redirects=False)
    assert done.status_code == 303
    assert done.headers["location"] == "/"
    cookie = done.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie
    csrf = page.get("/session").json()["csrf"]
    assert page.post("/api/overview", json={}).status_code == 403
    assert page.post("/api/overview", json={}, headers={"x-csrf-token": csrf}).status_code == 200
    session = page.cookies[COOKIE]
    assert page.post("/logout", headers={"x-csrf-token": csrf}).status_code == 200
    assert page.get("/session").status_code == 401
    assert page.get("/session", headers={"cookie": f"{COOKIE}={session}"}).status_code == 401
    assert "secure" not in cookie.lower()
    from_tls = {"origin": "https://localhost"}
    done = page.post("/login", data={"token": TOKEN}, headers=from_tls, follow_redirects=False)
    assert "; secure" in done.headers["set-cookie"].lower()


def test_sessions_end_and_do_not_share_what_protects_them():
    now = [0.0]
    access = Access(TOKEN, monotonic=lambda: now[0])
    one, two = access.log_in(TOKEN), access.log_in(TOKEN)
    assert not access.is_session("another")
    assert access.is_csrf(one, access.csrf(one))
    assert not access.is_csrf(two, access.csrf(one))
    assert Access(TOKEN).csrf("") != access.csrf("")
    now[0] = 12 * 3600 - 1.0
    assert access.is_session(one)
    for _ in range(1000):
        newest = access.log_in(TOKEN)
    assert not access.is_session(one)
    assert access.is_session(newest)
    now[0] += 12 * 3600 + 1.0
    assert not access.is_session(newest)


def test_a_program_sends_the_token_as_a_header(follower):
    page = client(follower, token=TOKEN)
    assert (
        page.post("/api/overview", json={}, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    )
    assert page.post("/api/overview", json={}, headers={"authorization": "Bearer no"}).status_code == 401
    assert page.post("/api/overview", json={}, headers={"authorization": f"Basic {TOKEN}"}).status_code == 401
    assert page.get(f"/session?token={TOKEN}").status_code == 401


def test_other_machines_need_a_token():
    with pytest.raises(ConfigError, match="token is needed"):
        Access(None, "0.0.0.0")
    with pytest.raises(ConfigError, match="at least 16"):
        Access("short")


def test_wrong_questions_say_what_is_wrong(page):
    assert page.post("/api/topics", content=b"[1]").json()["error"] == "a question is a JSON object"
    for number in (10**9, True, 0):
        assert "'count' must be" in ask(page, "topics", count=number).json()["error"]
    assert "no topic 'nope'" in ask(page, "topic", topic="nope").json()["error"]
    assert ask(page, "records", topic="orders", partition=9).status_code == 400
    assert page.post("/api/topics", content=b" " * 70_000).status_code == 400
    half = page.post("/api/records", content=b'{"topic": "orders", "filter": "a = \'\\ud800\'"}')
    assert (half.status_code, half.json()["error"][:24]) == (400, "'filter' must be a text ")
    assert ask(page, "nothing").status_code == 404


def test_secrets_are_hidden():
    assert settings({"a.password": "p", "schema.registry.url": "http://user:p@host/x?y", "b": "1"}) == [
        {"name": "a.password", "value": "(hidden)"},
        {"name": "b", "value": "1"},
        {"name": "schema.registry.url", "value": "http://host/x"},
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("a.secret", "a.token", "a.credentials", "basic.auth.user.info"),
        *("s3.access.key", "adls.account.key", "ssl.private.key"),
    ],
)
def test_the_names_of_secrets(name):
    assert settings({name: "x"}) == [{"name": name, "value": "(hidden)"}]


def test_the_address_of_a_log_is_shown_without_what_may_be_secret(log):
    log.store.url = "s3://key:secret@bucket/log?signature=secret"
    page = client(Follower(log.store, clock=Waiting()))
    session = page.get("/session").json()
    page.headers["x-csrf-token"] = session["csrf"]
    assert session["logs"] == [{"name": "log", "url": "s3://bucket/log"}]
    assert "eoslog maintain s3://bucket/log" in (text := ask(page, "storage").text)
    assert "secret" not in text


def test_a_failure_shows_nothing_of_its_text(page, follower, monkeypatch):
    monkeypatch.setattr(follower, "asked", lambda: {}["text of a record"])
    answer = ask(page, "overview")
    assert answer.status_code == 500
    assert answer.json() == {"error": "the page failed: KeyError; its log says more", "code": "INTERNAL"}


def test_too_many_browsers_are_refused(page, monkeypatch):
    monkeypatch.setattr("spark_eos.extensions.ui.app._MOST_STREAMS", 0)
    assert page.get("/events").status_code == 503


@pytest.mark.parametrize("number", ["1", "one", "-1", "", "\u0660", "9" * 5000])
def test_there_is_no_stream_of_another_log(page, number):
    assert page.get("/events", params={"log": number}).status_code == 404


# -- What it shows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("results", "expected"), [((SOUND,), []), ((), [("bad", "health")])])
def test_what_a_verification_elsewhere_has_noted(log, request, results, expected):
    log.commit(lambda state: note_actions(state, VERIFY, *results))
    found = ask(request.getfixturevalue("page"), "overview").json()["attention"]
    assert [(one["level"], one["to"]) for one in found] == expected


def test_overview_topics_and_storage(page):
    one = ask(page, "overview").json()
    assert (one["topics"], one["partitions"], one["offsets"]) == (2, 3, 21)
    assert (one["attention"], one["unverified"]) == ([], True)
    rows = ask(page, "topics", filter="ORD").json()["rows"]
    assert [(row["name"], row["offsets"]) for row in rows] == [("orders", 20)]
    for fields, names in (
        ({}, ["json", "orders"]),
        ({"reverse": True}, ["orders", "json"]),
        ({"sort": "records"}, ["orders", "json"]),
        ({"sort": "records", "reverse": True}, ["json", "orders"]),
    ):
        assert [row["name"] for row in ask(page, "topics", **fields).json()["rows"]] == names
    for fields, names in (
        ({}, ["orders", "json"]),
        ({"sort": "name"}, ["json", "orders"]),
        ({"sort": "name", "count": 1}, ["json"]),
        ({"sort": "bytes"}, ["orders", "json"]),
        ({"sort": "bytes", "reverse": True}, ["json", "orders"]),
    ):
        assert [row["name"] for row in ask(page, "storage", **fields).json()["rows"]] == names
    assert ask(page, "storage", sort="retention_ms").status_code == 400
    part = ask(page, "topic", topic="orders").json()["page_rows"][0]
    assert (part["start"], part["end"], part["lso"]) == (0, 20, 20)
    stored = ask(page, "storage").json()
    orders, json_ = stored["rows"]
    assert (stored["batches"], stored["bytes"]) == (2, orders["bytes"] + json_["bytes"])
    assert {name: orders[name] for name in ("batches", "average", "unsealed", "cleanup", "retention_ms")} == {
        "batches": 1,
        "average": orders["bytes"],
        "unsealed": 1,
        "cleanup": "delete",
        "retention_ms": "604800000",
    }
    assert [(debt["value"], debt["high"]) for debt in stored["debt"]] == [
        *((one["seq"], False), (2, False), (0, False), (0, False))
    ]
    assert [row["format"] for row in ask(page, "topics").json()["rows"]] == ["json", "bytes"]


def test_records_by_place_search_and_key(page):
    def offsets(**fields):
        answer = ask(page, "records", topic="orders", partition=0, **fields)
        return [row["offset"] for row in answer.json()["rows"]]

    assert offsets(count=3) == [19, 18, 17]
    assert offsets(**{"from": "start"}, count=3) == [0, 1, 2]
    assert offsets(**{"from": "offset"}, offset=5, count=2) == [5, 6]
    assert offsets(**{"from": "time"}, time="2020-01-01", count=1) == [0]
    assert offsets(**{"from": "time"}, time="2999-01-01") == []
    assert offsets(**{"from": "start"}, search="> 7") == [7]
    assert offsets(search="SCRIPT", count=2) == [19, 18]
    assert offsets(key="k3") == [3]
    assert offsets(key="k") == []
    row = ask(page, "records", topic="orders", partition=0, **{"from": "start"}, count=1).json()["rows"][0]
    assert row["value"] == {"text": f"{HOSTILE} 0", "as": "text", "bytes": 27, "cut": False}
    value = ask(page, "records", topic="json").json()["rows"][0]["value"]
    assert (value["text"], value["as"]) == ('{"a":1}', "json")


@pytest.mark.parametrize("limit", ["MOST_BATCHES", "MOST_BYTES"])
def test_a_search_reads_so_much_and_says_where_to_go_on(page, log, follower, monkeypatch, limit):
    Admin(log).create_topic("t", 1)
    for number in range(4):
        with Producer(log) as producer:
            producer.send("t", b"value %d" % number)
    follower.poll()
    monkeypatch.setattr(f"spark_eos.extensions.ui.reading.wanted.{limit}", 1)
    one = ask(page, "records", topic="t", **{"from": "start"}, search="value 3").json()
    assert (one["rows"], one["next"], one["done"]) == ([], [[0, 1]], False)
    back = ask(page, "records", topic="t", search="value 0").json()
    assert (back["rows"], back["next"], back["done"], back["looked_at"]) == ([], [[0, 3]], False, 1)
    older = ask(page, "records", topic="t", search="value 2", before=back["next"]).json()
    assert older["rows"][0]["offset"] == 2


def test_typed_records(page, log, follower):
    columns = pa.schema(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("price", pa.decimal128(9, 2)),
            ("tags", pa.list_(pa.string())),
        ]
    )
    Admin(log).create_topic("typed", 1, schema=columns)
    rows = [
        {"id": 2**60 + one, "name": HOSTILE, "price": Decimal("1.50"), "tags": [f"t{one}", None]}
        for one in range(5)
    ]
    with Producer(log) as producer:
        producer.send_arrow("typed", pa.Table.from_pylist(rows, columns), 0)
    follower.poll()
    found = ask(page, "records", topic="typed", search="T3").json()["rows"]
    assert [(row["offset"], row["key"], row["headers"], row["value"]["as"]) for row in found] == [
        (3, None, [], "columns")
    ]
    assert found[0]["value"]["text"] == (
        f'{{"id": {2**60 + 3}, "name": "{HOSTILE}", "price": 1.50, "tags": ["t3", null]}}'
    )
    whole = ask(page, "record", topic="typed", partition=0, offset=4).json()["row"]
    assert whole["value"]["text"].endswith('"tags": ["t4", null]}')
    assert [one["name"] for one in ask(page, "topic", topic="typed").json()["columns"]] == columns.names


def test_values_that_python_and_browsers_do_not_have(page, log, follower):
    columns = pa.schema(
        [
            ("day", pa.date32()),
            ("at", pa.timestamp("us")),
            ("id", pa.int64()),
            ("no", pa.float64()),
            ("b", pa.binary()),
        ]
    )
    Admin(log).create_topic("typed", 1, schema=columns)
    arrays = (
        *(pa.array([-719_162], pa.date32()), pa.array([1], pa.timestamp("us"))),
        *(pa.array([2**53 + 1]), pa.array([float("nan")]), pa.array([b"x" * 3000])),
    )
    with Producer(log) as producer:
        producer.send_arrow("typed", pa.Table.from_arrays(arrays, schema=columns), 0)
        producer.send("json", b'{"a": 1.10, "a": 12345678901234567890.5}')
    follower.poll()
    value = ask(page, "records", topic="typed").json()["rows"][0]["value"]
    assert value["text"].startswith(
        '{"day": 0001-01-01, "at": 1970-01-01T00:00:00.000001, "id": 9007199254740993, "no": NaN, "b": b"xxx'
    )
    assert value["cut"]
    found = [row["value"]["text"] for row in ask(page, "records", topic="json").json()["rows"]]
    assert '{"a": 1.10, "a": 12345678901234567890.5}' in found


def test_avro_records_and_a_registry_that_is_not_asked(page, log, follower):
    schema = json.dumps({"type": "record", "name": "o", "fields": [{"name": "name", "type": "string"}]})
    config = {"value.format": "avro-confluent", "value.schema": schema, "value.schema.id": 7}
    Admin(log).create_topic("avro", 1)
    with Producer(log) as producer:
        producer.send("avro", b"\0\0\0\0\x63\x04hi").get()  # Of a schema that only a registry has.
    with socket.create_server(("127.0.0.1", 0)) as registry:
        registry.settimeout(0)
        url = f"http://127.0.0.1:{registry.getsockname()[1]}"
        Admin(log).alter_topic("avro", config={**config, "schema.registry.url": url})
        with Producer(log) as producer:
            producer.send("avro", {"name": HOSTILE * 200}).get()
        follower.poll()
        known, unknown = (row["value"] for row in ask(page, "records", topic="avro").json()["rows"])
        with pytest.raises(BlockingIOError):
            registry.accept()
    assert (unknown["text"], unknown["as"]) == ("00 00 00 00 63 04 68 69", "hex")
    assert "no schema with id 99" in unknown["problem"]
    assert (known["as"], known["cut"]) == ("avro", True)
    whole = ask(page, "record", topic="avro", partition=0, offset=1).json()["row"]["value"]
    assert json.loads(whole["text"]) == {"name": HOSTILE * 200}
    as_stored = ask(page, "records", topic="avro", decode="hex").json()["rows"][0]["value"]
    assert as_stored["text"].startswith("00 00 00 00 07")


def test_objects_are_counted(page, follower):
    ask(page, "count-objects")
    storage._counting(follower).wait(60)
    answer = ask(page, "storage").json()
    result = answer["counted"]["result"]
    objects = [*follower.store.list("")]
    assert (result["objects"], result["bytes"]) == (len(objects), sum(info.size for info in objects))
    assert {kind["kind"]: kind["objects"] for kind in result["kinds"]} == {
        "data files": 2,
        "entries": follower.state.seq + 1,
    }
    kinds = [
        storage._kind(name) for name in (paths.snapshot(5), paths.entry(5), f"{paths.INDEX}a", "_groups/g/m")
    ]
    assert kinds == ["snapshots", "entries", "index pages", "other"]
    assert answer["count"] == 50  # Rows of a page.


def test_records_around_a_damaged_batch(tmp_path):
    log = Log.create(str(tmp_path))
    Admin(log).create_topic("t", 1)
    for number in range(4):
        with Producer(log) as producer:
            producer.send("t", b"value %d" % number)
    (damaged,) = (file for file in tmp_path.glob("data/t-*/*") if b"value 2" in file.read_bytes())
    damaged.write_bytes(damaged.read_bytes().replace(b"value 2", b"value 9"))
    follower = Follower(str(tmp_path), clock=Waiting())
    page = client(follower)
    page.headers["x-csrf-token"] = page.get("/session").json()["csrf"]
    for fields, offsets in (
        ({}, [3, 1, 0]),
        ({"from": "start"}, [0, 1, 3]),
        ({"search": "value"}, [3, 1, 0]),
    ):
        answer = ask(page, "records", topic="t", **fields).json()
        assert [row["offset"] for row in answer["rows"]] == offsets
        (named,) = answer["damaged"]
        assert damaged.name in named
        assert "(t-0, offset 2)" in named
        assert answer["done"]
    assert damaged.name in ask(page, "record", topic="t", partition=0, offset=2).json()["error"]
    ask(page, "check-health", quick=False)
    job_of(follower).wait(60)
    (first, *_) = ask(page, "overview").json()["attention"]
    assert (first["level"], first["text"]) == ("bad", "verify has found 1 damaged or missing objects")


def test_findings_come_in_the_order_of_what_they_mean(monkeypatch):
    told = []

    def check(_store, found, **_options):
        notes = FindingCollector(found)
        for number in range(health._FINDINGS):
            notes.add(Verdict.NOTE, f"note {number}", "is there")
        notes.unread("closed", "has no key")
        notes.wrong("damaged", "is damaged", "put it back")
        return notes.summary

    def tell(*, findings):
        told.append(findings)

    monkeypatch.setattr(health, "verify", check)
    job = SimpleNamespace(arguments={"quick": False}, at=None, tell=tell)
    assert not health._verify(SimpleNamespace(store=None), job)["sound"]
    assert [one["name"] for one in told[-1][:3]] == ["damaged", "closed", "note 0"]
    assert len(told[-1]) == health._FINDINGS


def test_history_and_health(page, follower):
    rows = ask(page, "history").json()["rows"]
    assert [row["seq"] for row in rows] == list(range(follower.state.seq, -1, -1))
    assert "AppendBatches" in {
        action["name"] for row in rows for one in row["requests"] for action in one["actions"]
    }
    assert ask(page, "entry", entry=1).json()["actions"][0]["action"] == "CreateTopic"
    assert ask(page, "check-health").json()["state"] in {"running", "done"}
    job_of(follower).wait(60)
    assert ask(page, "health").json()["result"]["sound"]


def test_a_store_that_cannot_be_read_is_shown_with_the_age_of_what_is_shown(log):
    store, clock = FaultyStore(log.store), FakeClock()
    store.requests_are_free = False  # As a bucket's.
    follower = Follower(store, clock=clock)
    page = client(follower)
    page.headers["x-csrf-token"] = page.get("/session").json()["csrf"]
    assert follower.poll()
    read_ms = clock.now_ms()
    for operation in ("read", "size", "list"):
        store.inject(StoreUnavailableError("the bucket is away"), operation, times=None)
    clock.now += 60
    assert not follower.poll()
    one = ask(page, "overview").json()
    assert "the bucket is away" in one["error"]
    assert not any("the bucket is away" in row["text"] for row in one["attention"]), (
        "it is said above all views"
    )
    assert (one["read"], one["age"] >= 60_000) == (read_ms, True)
    assert not ask(page, "health").json()["store"]["readable"]
    clock.now_ms = lambda: read_ms - 3_600_000  # This machine's clock is set back.
    assert ask(page, "overview").json()["age"] >= 60_000
    del clock.now_ms
    store.heal()
    assert follower.poll()
    assert ask(page, "health").json()["store"]["readable"]
    assert follower.read_ms == clock.now_ms()


def test_a_group_and_its_lag(page, log, follower):
    from spark_eos import TopicPartition

    Admin(log).alter_group_offsets("readers", {TopicPartition("orders", 0): 5})
    follower.poll()
    (row,) = ask(page, "groups").json()["rows"]
    assert (row["name"], row["lag"]) == ("readers", 15)
    one = ask(page, "group", group="readers").json()
    assert one["page_rows"][0]["lag"] == one["behind"]["records"] == 15
    assert one["behind"]["bytes"] > 0
    assert ask(page, "topic", topic="orders").json()["readers"] == ["readers"]
    assert ask(page, "topic", topic="json").json()["readers"] == []


def test_of_many_members_the_first_are_shown_and_all_are_counted(page, log, follower, monkeypatch):
    monkeypatch.setattr(groups, "_MOST_MEMBERS", 2)
    for number in range(3):
        joining = (JoinGroup("many", f"m{number}", ("orders",), ("range",), 45_000),)
        log.commit(lambda _, joining=joining: joining)
    follower.poll()
    one = ask(page, "group", group="many").json()
    assert [row["member"] for row in one["members"]] == ["m0", "m1"]
    assert one["members_total"] == 3


# -- Transactions -------------------------------------------------------------------------------------------


def hanging(log):
    producer = Producer(log, {"transactional.id": "stuck"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"open", partition=1)
    producer.flush()
    return producer


def test_a_page_that_only_reads_aborts_nothing(page, log, follower):
    with hanging(log) as producer:
        follower.poll()
        (one,) = ask(page, "transactions").json()["rows"]
        assert (one["id"], one["held"]) == ("stuck", 1)
        named = {name: one[name] for name in ("id", "producer", "epoch", "number")}
        refused = ask(page, "abort", **named)
        assert refused.status_code == 403
        assert "--allow-writes" in refused.json()["error"]
        assert len(log.follow().open_transactions) == 1
        producer.abort_transaction()


def test_the_transaction_that_was_shown_is_aborted_and_no_other(log, follower):
    page = client(follower, allow_writes=True)
    page.headers["x-csrf-token"] = page.get("/session").json()["csrf"]
    producer = hanging(log)
    follower.poll()
    (one,) = ask(page, "transactions").json()["rows"]
    named = {name: one[name] for name in ("id", "producer", "epoch", "number")}
    for name in ("producer", "epoch", "number"):
        assert "not open any more" in ask(page, "abort", **{**named, name: one[name] + 1}).json()["error"]
    assert len(log.follow().open_transactions) == 1
    assert ask(page, "abort", **named).json()["already"] is False
    assert not log.follow().open_transactions
    assert ask(page, "abort", **named).json()["already"] is True
    assert ask(page, "abort-outcome", **named).json()["outcome"] == "aborted"
    with suppress(ProducerFencedError):  # It notices that it is fenced, or not yet.
        producer.close(0)


def test_a_transaction_that_has_ended_is_not_aborted(log, follower, monkeypatch):
    """Also if it ends between the look and the entry: nothing is written, and its producer goes on."""
    page = client(follower, allow_writes=True)
    page.headers["x-csrf-token"] = page.get("/session").json()["csrf"]
    with hanging(log) as producer:
        follower.poll()
        (one,) = ask(page, "transactions").json()["rows"]
        named = {name: one[name] for name in ("id", "producer", "epoch", "number")}
        writer = follower.writer(Log)
        monkeypatch.setattr(follower, "writer", lambda _: writer)
        commit = writer.commit

        def late(propose, **options):
            producer.commit_transaction()
            return commit(propose, **options)

        monkeypatch.setattr(writer, "commit", late)
        assert "not open any more" in ask(page, "abort", **named).json()["error"]
        monkeypatch.setattr(writer, "commit", commit)
        before = log.follow().seq
        assert "not open any more" in ask(page, "abort", **named).json()["error"]
        assert log.follow().seq == before
        producer.begin_transaction()
        producer.send("orders", b"goes on", partition=1)
        producer.commit_transaction()


def test_the_entry_of_an_abort_names_the_page(log, follower):
    page = client(follower, allow_writes=True)
    page.headers["x-csrf-token"] = page.get("/session").json()["csrf"]
    producer = hanging(log)
    follower.poll()
    (one,) = ask(page, "transactions").json()["rows"]
    assert (
        ask(page, "abort", **{name: one[name] for name in ("id", "producer", "epoch", "number")}).status_code
        == 200
    )
    follower.poll()
    assert ask(page, "history").json()["rows"][0]["requests"][0]["writer"] == "ui"
    with suppress(ProducerFencedError):
        producer.close(0)


# -- Looking ------------------------------------------------------------------------------------------------


def test_looking_never_writes(follower, log, page):
    before = {info.name for info in log.store.list("")}
    for area in (
        "overview",
        "topics",
        "groups",
        "transactions",
        "history",
        "storage",
        "publications",
        "health",
    ):
        assert ask(page, area).status_code == 200
    assert {info.name for info in log.store.list("")} == before
    for write in (follower.store.delete, follower.store.retire, follower.store.upload):
        with pytest.raises(StorePermissionError):
            write("data/x")
    for change in (follower.store.create, follower.store.overwrite):
        with pytest.raises(StorePermissionError):
            change("data/x", b"")


def test_a_log_that_is_not_looked_at_is_polled_rarely(log):
    follower = Follower(log.store, clock=FakeClock(), interval_s=0.001, idle_interval_s=3600)
    follower.start()
    time.sleep(0.2)
    assert follower.polls == 0
    follower.asked()
    while follower.polls < 3:
        time.sleep(0.001)
    follower.close()


def test_questions_about_the_state_cost_no_request(page, follower):
    ask(page, "overview")  # It looks which snapshots there are, once in half a minute.
    before = follower.store.requests
    for _ in range(20):
        for area in ("overview", "topics", "groups", "transactions", "publications"):
            ask(page, area)
    assert follower.store.requests == before


def test_partitions_of_a_group_are_sorted_by_lag_or_number(log):
    Admin(log).create_topic("three", 3)
    with Producer(log) as producer:
        for number in (1, 2, 2):
            producer.send("three", b"x", partition=number)
    Admin(log).alter_group_offsets("g", {TopicPartition("three", number): 0 for number in range(3)})
    page = client(Follower(log.store, clock=Waiting()))
    page.headers["x-csrf-token"] = page.get("/session").json()["csrf"]
    for sort, expected in (("lag", [2, 1, 0]), ("partition", [0, 1, 2])):
        rows = ask(page, "group", group="g", sort=sort).json()["page_rows"]
        assert [row["partition"] for row in rows] == expected


def test_many_partitions_are_paged(log):
    Admin(log).create_topic("wide", 10_000)
    follower = Follower(log.store, clock=Waiting())
    page = client(follower)
    page.headers["x-csrf-token"] = page.get("/session").json()["csrf"]
    answer = ask(page, "topic", topic="wide", first=9_990)
    assert [row["partition"] for row in answer.json()["page_rows"]] == list(range(9_950, 10_000))
    assert len(answer.content) < 20_000
    assert len(ask(page, "overview").content) < 5_000


def test_twenty_browsers_cost_one_poll_a_second(log):
    import httpx

    follower = Follower(log.store)
    with served([follower]) as server, httpx.Client(timeout=60) as http, ExitStack() as open_streams:
        begun, before = time.monotonic(), follower.polls
        lines = [
            open_streams.enter_context(http.stream("GET", f"{server.url}events")).iter_lines()
            for _ in range(20)
        ]
        requests = sum(follower.store.requests.values())
        for one in lines:
            seen = (json.loads(line[6:]) for line in one if line.startswith("data: "))
            assert next(seen)["seq"] == next(seen)["seq"] == follower.state.seq
        requests = sum(follower.store.requests.values()) - requests
        polls = follower.polls - before
        assert 1 <= polls <= time.monotonic() - begun + 1
        assert requests <= 3 * polls


def test_a_page_that_is_stopped_before_it_is_served_ends(follower):
    from spark_eos.extensions.ui.server import Server

    server = Server([follower], Access())
    server.stop()
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "end", [lambda *_, **_named: None, lambda *_, **_named: 1 / 0], ids=["early", "error"]
)
def test_a_page_that_is_no_longer_served_has_no_socket(follower, monkeypatch, end):
    """Older uvicorns do not close it if they are told to end while they begin: browsers would wait for ever."""
    import uvicorn

    from spark_eos.extensions.ui.server import Server

    monkeypatch.setattr(uvicorn.Server, "run", end)
    server = Server([follower], Access())
    with suppress(ZeroDivisionError):
        server.run()
    assert server._socket.fileno() == -1, "another process may have its port by now: nothing is asked there"


def test_the_head_of_a_request_has_a_bound_where_httptools_is_installed(log, monkeypatch):
    """It has none, and uvicorn takes it before h11."""
    import httpx
    import uvicorn.config

    monkeypatch.setitem(uvicorn.config.HTTP_PROTOCOLS, "auto", "asyncio:Protocol")
    with served([Follower(log.store)]) as server, httpx.Client(timeout=60) as http:
        assert http.get(server.url).status_code == 200
        assert http.get(server.url, headers={"x": "x" * 200_000}).status_code == 400


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("shop.example", "http://shop.example:80"),
        ("::1", "http://[::1]:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("", "http://127.0.0.1:80"),
    ],
)
def test_an_address_that_can_be_opened(host, shown):
    assert url_of(host, 80) == shown


@pytest.mark.deep
def test_the_command_names_its_address_and_token(log_url):
    import httpx

    Log.create(log_url)
    command = [sys.executable, "-m", "spark_eos", "ui", log_url, "--host", "0.0.0.0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        said = json.loads(process.stdout.readline())
        url = said["url"]
        header = {"authorization": f"Bearer {said['token']}"}
        assert httpx.get(f"{url}session").status_code == 401
        assert httpx.get(f"{url}session", headers=header).json()["logs"][0]["name"] == "log"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) in {0, 130, -2}
