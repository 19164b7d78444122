"""What can go wrong with an object store: which error it is, that it names the store and the call, how soon."""

from __future__ import annotations

import json
import random
import shutil
import socket
import subprocess
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import obstore
import pytest

from spark_eos.errors import (
    InvalidRequestError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StorageError,
    StoreFullError,
    StorePermissionError,
    StoreUnavailableError,
    UnsupportedStoreError,
)
from spark_eos.log.log import Log
from spark_eos.storage import Settings, open_store, probe
from spark_eos.storage.objects import clients, requests, store
from spark_eos.storage.objects.clients import parse_location
from spark_eos.storage.objects.responses import Response, response_error
from spark_eos.storage.objects.store import ObjectStore
from tests import starting
from verification.cloud_servers import MINIO, installed, minio, shared_access, temporary
from verification.object_server import ObjectServer, serving

SECRET = "kept-from-everybody"
SECONDS = 60.0
"""A bound for each of them: the library below would go on for three minutes."""

VERBS = {
    "create": lambda store: store.create("a", b"1"),
    "overwrite": lambda store: store.overwrite("a", b"1"),
    "read": lambda store: store.read("a"),
    "look at": lambda store: store.size("a"),
    "list": lambda store: [*store.list("")],
    "delete": lambda store: store.delete("a"),
}
REQUESTS = {"look at": "size"}
"""What the server calls a verb, where that is another word."""


@pytest.fixture
def server():
    with serving(ObjectServer({"bucket": {}})) as running:
        yield running


def store_at(address, *, retry_s=0.3, single_bytes=1 << 20, bucket="bucket", **settings):
    given = {
        "s3.endpoint": address,
        "s3.access-key-id": "AKID",
        "s3.secret-access-key": SECRET,
        **{f"s3.{name.replace('_', '-')}": value for name, value in settings.items()},
    }
    location = parse_location(f"s3://{bucket}/log")
    return ObjectStore(location, Settings(given), retry_s=retry_s, single_bytes=single_bytes)


waits = []
"""How long the store has waited before it asked again, in seconds."""


@pytest.fixture(autouse=True)
def _heard(monkeypatch):
    now = [0.0]

    def sleep(seconds):
        waits.append(seconds)
        now[0] += seconds

    # Only what it waits counts: a request takes long beside other work.
    monkeypatch.setattr(requests, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))


@contextmanager
def failing(kind, *words, at_once=False):
    """The block raises this error; it says these words, no secret, and comes soon.

    ``at_once``: without having been asked again. (The library below would ask again for longer than that.)
    """
    waits.clear()
    began = time.monotonic()
    with pytest.raises(kind) as caught:
        yield caught
    took = time.monotonic() - began
    error, text = caught.value, ""
    assert type(error) is kind
    assert error.__context__ is None or SECRET not in str(error.__context__)
    text = str(error)
    for word in words:
        assert word in text, f"{word!r} is not in {text!r}"
    assert SECRET not in text
    assert took < SECONDS, f"{text} took {took:.1f} s"
    assert not (at_once and waits), f"{text} was asked again after {waits} s"


# -- Refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("status", "code", "message", "kind", "word"),
    [
        (403, "AccessDenied", "Access Denied", StorePermissionError, "do not allow it"),
        (
            403,
            "SignatureDoesNotMatch",
            "The signature does not match",
            StorePermissionError,
            "check key and secret",
        ),
        (403, "InvalidAccessKeyId", "No such key", StorePermissionError, "check key and secret"),
        (403, "RequestTimeTooSkewed", "The difference is too large", StorePermissionError, "clock is wrong"),
        (400, "ExpiredToken", "The provided token has expired.", StorePermissionError, "have expired"),
        (401, "Unauthorized", "Who are you?", StorePermissionError, "check key and secret"),
        (400, "AuthorizationHeaderMalformed", "expecting 'eu-west-1'", StorageError, "s3.region"),
        (
            501,
            "NotImplemented",
            "A header is not implemented",
            UnsupportedStoreError,
            "does not know this request",
        ),
        (507, "XMinioStorageFull", "Disk full", StoreFullError, "nothing was written"),
        (404, "NoSuchBucket", "No such bucket", StorageError, "create it first"),
        (418, "Teapot", "I am one", StorageError, "418 Teapot I am one"),
    ],
)
def test_refusals_say_what_was_refused_and_what_to_do(server, verb, status, code, message, kind, word):
    server.refuse(REQUESTS.get(verb, verb), status, code, message)
    words = (str(status), word)
    if verb == "look at":  # The answer to a HEAD has no body: the status must do.
        kind = {400: StorageError, 403: StorePermissionError, 404: ObjectNotFoundError}.get(status, kind)
        words = () if status == 404 else (str(status),)
    with failing(kind, "s3://bucket/log", verb if words else "a", *words, at_once=True):
        VERBS[verb](store_at(server.address))
    assert server.count() == 1, "what was refused is not tried again"
    assert server.buckets["bucket"] == {}


@pytest.mark.parametrize(
    ("status", "message", "kind", "word"),
    [
        (403, "Clock skew of the request is too large", StorePermissionError, "clock is wrong"),
        (400, "This token is expired", StorePermissionError, "have expired"),
        (301, "", StorageError, "s3.region"),
        (307, "", StorageError, "s3.region"),
    ],
)
def test_refusals_without_a_code_say_what_to_do_too(status, message, kind, word):
    error = response_error(Response(status, "", message, ""), "read", "s3://bucket/log/a")
    assert isinstance(error, kind)
    assert word in str(error)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, StoreUnavailableError), (503, StoreUnavailableError), (404, StorePermissionError)],
)
def test_a_giver_of_credentials_that_is_busy_is_asked_again(status, kind):
    error = response_error(Response(status, "", "", "", True), "read", "s3://bucket/log/a")
    assert isinstance(error, kind)
    assert "No credentials were found" in str(error)


@pytest.mark.parametrize("code", ["KeyTooLongError", "InvalidObjectName"])
def test_a_name_that_the_store_does_not_take(server, code):
    server.refuse("create", 400, code)
    with failing(InvalidRequestError, "create", code):
        VERBS["create"](store_at(server.address))


def test_what_the_store_signed_is_not_repeated(server):
    """Some send back the request they tried to verify, with the token in it."""
    server.refuse("read", 403, "SignatureDoesNotMatch", f"It said {SECRET} <b>and more</b>")
    with failing(StorePermissionError, "SignatureDoesNotMatch", "***"):
        store_at(server.address).read("a")


def test_an_upload_in_parts_that_is_refused_leaves_nothing(server):
    for verb in ("begin", "part", "complete"):
        server.refuse(verb, 403, "AccessDenied", "Access Denied")
        store = store_at(server.address, single_bytes=1000)
        words = ("s3://bucket/log/a", "upload", "403", "Nothing was done")
        with failing(StorePermissionError, *words), store.upload("a") as file:
            file.write(bytes(3000))
        server.heal()
        assert server.buckets["bucket"] == {}
        if (
            verb != "part" or obstore.__version__ >= "0.12"
        ):  # Older ones leave the parts to the bucket's own rule.
            assert server.uploads == {}
        server.uploads.clear()


def test_an_upload_that_its_writer_gives_up_leaves_nothing(server):
    store = store_at(server.address, single_bytes=1000)
    upload = store.upload("a")
    upload.__enter__().write(bytes(2 << 20))
    assert server.uploads
    stop = RuntimeError("stop")
    assert not upload.__exit__(RuntimeError, stop, None)
    assert server.uploads == {}
    assert server.buckets["bucket"] == {}


def test_an_upload_that_cannot_look_before_its_end_leaves_nothing(server):
    server.refuse("size", 403, "AccessDenied")
    store = store_at(server.address, single_bytes=1000)
    with failing(StorePermissionError, "look at"), store.upload("a") as file:
        file.write(bytes(3000))
    assert server.uploads == {}


# -- Trouble that passes ------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("status", "code"), [(503, "SlowDown"), (500, "InternalError"), (429, "TooManyRequests")]
)
def test_trouble_that_passes_is_not_noticed(server, verb, status, code):
    server.buckets["bucket"]["log/there"] = b"1"
    server.refuse(REQUESTS.get(verb, verb), status, code, times=2)
    store = store_at(server.address, retry_s=20)
    with suppress(ObjectNotFoundError):
        VERBS[verb](store)
    assert server.count(REQUESTS.get(verb, verb)) == 3


def test_waits_leave_the_generator_of_the_application_alone(server):
    """A seed that the application has set makes the same numbers with and without trouble of the store."""
    server.buckets["bucket"]["log/there"] = b"1"
    server.refuse("read", 503, "SlowDown", times=2)
    waits.clear()
    before = random.getstate()
    store_at(server.address, retry_s=20).read("there")
    assert len(waits) == 2
    assert random.getstate() == before


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "list"])
@pytest.mark.parametrize(
    ("status", "code"), [(503, "SlowDown"), (500, "InternalError"), (429, "TooManyRequests")]
)
def test_trouble_that_stays(server, verb, status, code):
    server.refuse(REQUESTS.get(verb, verb), status, code)
    changes = verb in {"create", "overwrite", "delete"} and status >= 500
    words = ("Repeat the same call",) if changes else ("try again",)
    kind = OutcomeUnknownError if changes else StoreUnavailableError
    with failing(kind, "s3://bucket/log/a", verb, str(status), *words):
        VERBS[verb](store_at(server.address))
    assert server.count() > 1


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "create"])
@pytest.mark.parametrize("status", [304, 409, 412])
def test_a_condition_that_nobody_asked_for(server, verb, status):
    """A proxy on the way may say anything once."""
    server.buckets["bucket"]["log/a"] = b"1"
    server.refuse(REQUESTS.get(verb, verb), status, "Nonsense", times=1)
    VERBS[verb](store_at(server.address, retry_s=5))
    assert server.count(REQUESTS.get(verb, verb)) == 2
    server.refuse(REQUESTS.get(verb, verb), status, "Nonsense")
    with failing(StoreUnavailableError, "s3://bucket/log", verb, str(status)):
        VERBS[verb](store_at(server.address))


def test_our_own_mistakes_are_not_taken_for_replies(server):
    store = store_at(server.address)
    with pytest.raises(AttributeError):
        store._requests.ask("read", "a", lambda: store.no_such_thing)


def test_a_create_that_met_its_own_object_says_that_it_exists(server):
    """The first try was served, its reply lost, and the second one refused: the bytes say whose it is."""
    store = store_at(server.address)
    store.create("a", b"mine")
    server.refuse("create", 500, "InternalError", times=1)
    with failing(ObjectExistsError, "create"):
        store.create("a", b"mine")


def test_a_conflict_with_a_delete_is_tried_again(server):
    """S3 answers 409 to a create that races a delete, though nothing is there then."""
    server.refuse("create", 409, "ConditionalRequestConflict", times=2)
    store = store_at(server.address, retry_s=5)
    store.create("a", b"1")
    assert store.read("a") == b"1"


def test_a_conflict_with_another_create_is_told(server):
    server.refuse("create", 409, "ConditionalRequestConflict")
    server.buckets["bucket"]["log/a"] = b"theirs"
    with failing(ObjectExistsError, "create", at_once=True):
        store_at(server.address, retry_s=5).create("a", b"mine")
    assert server.count("create") == 1


def test_a_conflict_that_stays_with_nothing_there(server):
    server.refuse("create", 409, "ConditionalRequestConflict")
    with failing(StoreUnavailableError, "create", "409"):
        store_at(server.address).create("a", b"1")


def test_a_conflict_after_a_lost_reply_is_in_doubt(server):
    server.refuse("create", 500, "InternalError", times=1)
    server.refuse("create", 409, "ConditionalRequestConflict")
    with failing(OutcomeUnknownError, "create"):
        store_at(server.address).create("a", b"1")


def test_a_refusal_after_a_lost_reply_is_in_doubt(server):
    server.refuse("create", 500, "InternalError", times=1)
    server.refuse("create", 403, "ExpiredToken", "expired")
    with failing(OutcomeUnknownError, "create"):
        store_at(server.address).create("a", b"1")


def test_an_upload_whose_last_reply_was_lost_is_found(server):
    """The library asks again, and is told that there is no such upload any more."""
    store = store_at(server.address, single_bytes=1000)
    server.loses = "complete"
    with failing(ObjectExistsError, "s3://bucket/log/a", "it is there"), store.upload("a") as file:
        file.write(bytes(3000))
    assert store.read("a") == bytes(3000)


def test_an_upload_whose_end_is_refused_after_a_lost_reply_is_in_doubt(server):
    """The library has asked again by itself: the refusal says nothing of what it asked before."""
    server.refuse("complete", 500, "InternalError", times=1)
    server.refuse("complete", 403, "ExpiredToken", "expired")
    store = store_at(server.address, single_bytes=1000)
    with failing(OutcomeUnknownError, "upload"), store.upload("a") as file:
        file.write(bytes(3000))


def test_an_upload_in_doubt_stays_so_if_the_store_cannot_be_asked(server, monkeypatch):
    server.refuse("complete", 500, "InternalError", times=1)
    server.refuse("complete", 403, "ExpiredToken", "expired")
    store, looks = store_at(server.address, single_bytes=1000), [False]

    def is_there(*_):
        if not looks:
            raise StoreUnavailableError("away")
        return looks.pop()

    monkeypatch.setattr("spark_eos.storage.objects.store.is_there", is_there)
    with failing(OutcomeUnknownError, "upload"), store.upload("a") as file:
        file.write(bytes(3000))
    assert not looks


def test_a_list_goes_on_where_it_was_interrupted(server, monkeypatch):
    monkeypatch.setattr(store, "_LIST_PAGE", 2)
    server.page = 2
    for number in range(7):
        server.buckets["bucket"][f"log/{number}"] = b"1"
    listed = store_at(server.address, retry_s=5).list("")
    names = [next(listed).name]
    server.refuse("list", 503, "SlowDown", times=2)
    names += [info.name for info in listed]
    assert names == [str(number) for number in range(7)]
    refused = [request for request in server.journal if request.status == 503]
    assert len(refused) == 2, "it was interrupted in the middle"


# -- The way there ------------------------------------------------------------------------------------


@contextmanager
def listening(talk):
    """A server that does with each connection what ``talk`` says."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        over = threading.Event()

        def serve():
            while not over.is_set():
                with suppress(OSError):
                    connection, _ = listener.accept()
                    threading.Thread(target=talk, args=(connection, over), daemon=True).start()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


def hang_up(connection, _):
    connection.recv(1000)
    connection.close()


def say_nothing(connection, over):
    over.wait()
    connection.close()


@pytest.mark.parametrize("verb", VERBS)
def test_nobody_listens(verb, monkeypatch):
    monkeypatch.setattr(clients, "PATIENCE_S", 0.3)
    with (
        socket.socket() as taken,  # So that nobody else listens there, either.
        failing(StoreUnavailableError, "s3://bucket/log", verb, "refused", "Nothing was done"),
    ):
        taken.bind(("127.0.0.1", 0))
        VERBS[verb](store_at(f"http://127.0.0.1:{taken.getsockname()[1]}"))


def test_a_host_that_is_not_there():
    with failing(StoreUnavailableError, "s3://bucket/log/a", "create", "Nothing was done"):
        store_at("http://no-such-host.invalid:9").create("a", b"1")


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "list"])
def test_a_server_that_hangs_up(verb):
    kind = OutcomeUnknownError if verb in {"create", "overwrite", "delete"} else StoreUnavailableError
    with listening(hang_up) as address, failing(kind, "s3://bucket/log/a", verb):
        VERBS[verb](store_at(f"http://{address}"))


@pytest.mark.parametrize("verb", ["create", "read"])
def test_a_server_that_does_not_answer(verb):
    kind = OutcomeUnknownError if verb == "create" else StoreUnavailableError
    with listening(say_nothing) as address, failing(kind, "s3://bucket/log/a", verb, "in time"):
        VERBS[verb](store_at(f"http://{address}", request_timeout="0.3"))


def test_credentials_that_nobody_gives(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/no/such/file")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/no/such/file")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    store = ObjectStore(parse_location("s3://bucket/log"), retry_s=0.1)
    with failing(StoreUnavailableError, "s3://bucket/log/a", "create", "No credentials were found"):
        store.create("a", b"1")


@pytest.mark.parametrize(
    ("url", "address", "environ", "sent"),
    [
        ("az://box/l", "AZURE_STORAGE_ENDPOINT", {"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=2"}, "?sv=1&sig=2 "),
        ("az://box/l", "AZURE_STORAGE_ENDPOINT", {"AZURE_STORAGE_TOKEN": "told"}, "Bearer told"),
        ("az://box/l", "AZURE_STORAGE_ENDPOINT", {"AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}, "SharedKey acc:"),
        ("gs://box/l", "GOOGLE_BASE_URL", {"GOOGLE_BEARER_TOKEN": "told"}, "Bearer told"),
        (
            "s3://box/l",
            "AWS_ENDPOINT_URL",
            {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-west-9"},
            "/eu-west-9/s3/aws4_request",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_credentials_of_the_environment(url, address, environ, sent, monkeypatch):
    """The variables that docs/guide/stores names are those the requests are signed with."""
    heard = []

    def absent(connection, _):
        heard.append(connection.recv(10_000).decode())
        connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        connection.close()

    for name, value in {"AZURE_STORAGE_ACCOUNT_NAME": "acc", **environ}.items():
        monkeypatch.setenv(name, value)
    with listening(absent) as host:
        monkeypatch.setenv(address, f"http://{host}")
        with pytest.raises(ObjectNotFoundError):
            open_store(url).read("a")
    assert sent in heard[0]


# -- TLS, with MinIO ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    """MinIO with a certificate that is not trusted."""
    if not installed(MINIO):
        pytest.skip("MinIO is not here: scripts/servers installs it")
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is not here: it makes the certificate")
    folder = tmp_path_factory.mktemp("tls")
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", str(folder / "private.key"), "-out", str(folder / "public.crt"), "-subj", "/CN=127.0.0.1",
         "-addext", "basicConstraints=critical,CA:FALSE",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        capture_output=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    with minio(tmp_path_factory.mktemp("minio") / "data", certificates=folder) as server:
        yield server, folder / "public.crt"


@pytest.mark.parametrize("verb", VERBS)
def test_a_certificate_that_is_not_trusted(secure, verb):
    server, _ = secure
    store = open_store(f"{server.url}/log", server.settings)
    with failing(StorageError, "s3://bucket/log", verb, "TLS", "s3.ca-file", at_once=True):
        VERBS[verb](store)


def test_a_certificate_that_is_trusted(secure):
    server, authority = secure
    store = open_store(f"{server.url}/tls", Settings({**server.settings, "s3.ca-file": str(authority)}))
    store.create("a", b"1")
    assert [info.name for info in store.list("")] == ["a"]


def test_plain_http_to_a_server_with_tls(secure):
    server, _ = secure
    settings = Settings({**server.settings, "s3.endpoint": server.address.replace("https", "http")})
    store = ObjectStore(parse_location(f"{server.url}/log"), settings, retry_s=0.3)
    with failing(StorageError, "s3://bucket/log/a", "create"):
        store.create("a", b"1")


def test_tls_to_a_server_without():
    with listening(hang_up) as address, failing(StoreUnavailableError, "create"):
        store_at(f"https://{address}").create("a", b"1")


# -- MinIO's own words --------------------------------------------------------------------------------


@pytest.fixture
def real(minio_server):
    return minio_server


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("change", "kind", "word"),
    [
        ({"s3.secret-access-key": SECRET}, StorePermissionError, "check key and secret"),
        ({"s3.access-key-id": "nobody"}, StorePermissionError, "check key and secret"),
        ({"s3.session-token": "made-up"}, StorePermissionError, "check key and secret, or the token"),
        ({"s3.anonymous": "true"}, StorePermissionError, "do not allow it"),
    ],
    ids=["secret", "key", "token", "anonymous"],
)
def test_credentials_that_minio_refuses(real, verb, change, kind, word):
    store = open_store(f"{real.url}/log", Settings({**real.settings, **change}))
    with failing(kind, f"{real.url}/log", verb, *(() if verb == "look at" else (word,)), at_once=True):
        VERBS[verb](store)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "look at"])
def test_a_bucket_that_is_not_there(real, verb):
    store = open_store("s3://no-such-bucket/log", real.settings)
    with failing(
        StorageError, "s3://no-such-bucket/log", verb, "NoSuchBucket", "create it first", at_once=True
    ):
        VERBS[verb](store)


def test_a_log_says_so_too(real):
    with failing(StorageError, "s3://no-such-bucket/log", "create it first", at_once=True):
        Log.open_or_create("s3://no-such-bucket/log", settings=real.settings)
    with failing(StorePermissionError, "check key and secret", at_once=True):
        Log.open(f"{real.url}/log", settings=Settings({**real.settings, "s3.secret-access-key": SECRET}))


def policy(place, *, without=""):
    """The policy of docs/guide/stores/s3.md, for this place."""
    page = (Path(__file__).parents[2] / "docs" / "guide" / "stores" / "s3.md").read_text("utf-8")
    text = page.partition("```json")[2].partition("```")[0]
    found = json.loads(text.replace("bucket/path", f"bucket/{place}").replace('"path/*"', f'"{place}/*"'))
    for statement in found["Statement"]:
        actions = statement["Action"]
        statement["Action"] = [
            one for one in ([actions] if isinstance(actions, str) else actions) if one != without
        ]
    found["Statement"] = [statement for statement in found["Statement"] if statement["Action"]]
    return found


def test_the_policy_of_the_page_is_enough_and_no_more(real):
    place = uuid.uuid4().hex
    settings = temporary(real, policy(place))
    url = f"{real.url}/{place}"
    store = open_store(url, settings)
    Log.create(url, settings=settings).ensure_topic("t", 1)
    for verb in VERBS.values():
        verb(store)
    with store.upload("large") as file:
        file.write(bytes(50 << 20))
    stop = RuntimeError("stop")
    upload = store.upload("given-up")
    upload.__enter__().write(bytes(50 << 20))
    assert not upload.__exit__(RuntimeError, stop, None)
    assert store.size("large") == 50 << 20
    for verb, call in VERBS.items():
        with failing(StorePermissionError, f"{real.url}/elsewhere", verb, "403", at_once=True):
            call(open_store(f"{real.url}/elsewhere", settings))


@pytest.mark.parametrize(
    ("verb", "action"),
    [("create", "Put"), ("overwrite", "Put"), ("read", "Get"), ("look at", "Get"), ("delete", "Delete")],
)
def test_one_verb_that_minio_does_not_allow(real, verb, action):
    place = uuid.uuid4().hex
    open_store(f"{real.url}/{place}", real.settings).create("b", b"1")
    store = open_store(f"{real.url}/{place}", temporary(real, policy(place, without=f"s3:{action}Object")))
    words = () if verb == "look at" else ("do not allow it",)
    with failing(StorePermissionError, store.url, verb, "403", *words, at_once=True):
        VERBS[verb](store)
    assert [info.name for info in store.list("")] == ["b"]


def test_no_permission_to_list_in_minio(real):
    place = uuid.uuid4().hex
    settings = temporary(real, policy(place, without="s3:ListBucket"))
    with failing(StorePermissionError, f"{real.url}/{place}", "do not allow it", at_once=True):
        Log.open_or_create(f"{real.url}/{place}", settings=settings)
    left = [info.name for info in open_store(f"{real.url}/{place}", real.settings).list("")]
    assert not [name for name in left if name.startswith("_log/")], left


# -- Azurite's own words ------------------------------------------------------------------------------


def signed(server, *allowed, **more):
    """Settings with a signature in place of the key."""
    given = {name: value for name, value in server.settings.items() if name != "adls.account-key"}
    return Settings({**given, "adls.sas-token": shared_access("container", *allowed, **more)})


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("how", ["key", "token", "expired signature", "signature of another"])
def test_credentials_that_azurite_refuses(azurite_server, verb, how):
    given = {name: value for name, value in azurite_server.settings.items() if name != "adls.account-key"}
    settings = {
        "key": {"adls.account-key": "a2VwdC1mcm9tLWV2ZXJ5Ym9keQ=="},
        "token": {"adls.token": SECRET},
        "expired signature": signed(azurite_server, "rcwdl", expires="2020-01-01T00:00:00Z"),
        "signature of another": {"adls.sas-token": f"sv=2019-12-12&sr=c&sp=rcwdl&se=2099-01-01&sig={SECRET}"},
    }[how]
    store = open_store(f"{azurite_server.url}/log", Settings({**given, **settings}))
    words = () if verb == "look at" else ("check key and secret",)
    with failing(StorePermissionError, f"{azurite_server.url}/log", verb, *words, at_once=True) as caught:
        VERBS[verb](store)
    assert settings.get("adls.account-key", SECRET) not in str(caught.value)
    for part in settings.get("adls.sas-token", "").split("&"):
        assert not part.startswith("sig=") or part[4:] not in str(caught.value)


NEEDED = {"create": "c", "overwrite": "w", "read": "r", "look at": "r", "list": "l", "delete": "d"}
"""What of ``rcwdl`` a verb cannot do without; a create may also be allowed by ``w``."""


@pytest.mark.parametrize("verb", VERBS)
def test_one_verb_that_is_not_allowed(azurite_server, verb):
    url = f"{azurite_server.url}/{uuid.uuid4().hex}"
    open_store(url, azurite_server.settings).create("a", b"1")
    without = {NEEDED[verb], "w"} if verb == "create" else {NEEDED[verb]}
    store = open_store(url, signed(azurite_server, "".join(one for one in "rcwdl" if one not in without)))
    words = () if verb == "look at" else ("do not allow it",)
    with failing(StorePermissionError, url, verb, "403", *words, at_once=True):
        VERBS[verb](store)
    refused = {verb, "create"} | {other for other in VERBS if NEEDED[other] in without}
    for other, call in VERBS.items():
        if other not in refused:
            call(store)


@pytest.mark.parametrize("allowed", ["rl", "rcwd", "cwdl"])
def test_nothing_of_a_log_is_written_without_permission(azurite_server, allowed):
    url = f"{azurite_server.url}/{uuid.uuid4().hex}"
    with failing(StorePermissionError, url, "do not allow it", at_once=True):
        Log.open_or_create(url, settings=signed(azurite_server, allowed))
    left = [info.name for info in open_store(url, azurite_server.settings).list("")]
    assert not [name for name in left if name.startswith("_log/")], left


def test_a_log_is_written_by_those_who_may_delete_nothing(azurite_server):
    url = f"{azurite_server.url}/{uuid.uuid4().hex}"
    log = Log.open_or_create(url, settings=signed(azurite_server, "rcwl"))
    log.ensure_topic("t", 1)
    assert "t" in Log.open(url, settings=azurite_server.settings).state.topics


@pytest.mark.parametrize("verb", ["create", "overwrite", "read", "list"])
def test_a_container_that_is_not_there(azurite_server, verb):
    store = open_store("az://no-such-container/log", azurite_server.settings)
    with failing(StorageError, "az://no-such-container/log", verb, "ContainerNotFound", "create it first"):
        VERBS[verb](store)


# -- Processes ----------------------------------------------------------------------------------------


def test_a_forked_process_is_told_instead_of_left_to_hang(server):
    done = starting.run("storage/forks_a_store", server.address, flags=("-W", "ignore"))
    assert (done.stdout.strip(), done.stderr) == ("3", "")


@pytest.mark.deep
def test_a_forked_process_is_told_by_its_clients_and_leaves_the_upload_alone(server):
    done = starting.run("storage/forks_clients", server.address, flags=("-W", "ignore"))
    assert (done.stdout.split(), done.stderr) == (["5", "done"], "")


# -- Probing ------------------------------------------------------------------------------------------


def test_a_store_that_ignores_the_condition_is_refused():
    with serving(ObjectServer({"bucket": {}}, ignores_conditions=True)) as server:
        for url, settings in [
            ("s3://bucket/log", {"s3.endpoint": server.address, "s3.anonymous": "true"}),
            ("gs://bucket/log", {"gcs.service.host": server.address, "gcs.no-auth": "true"}),
        ]:
            with failing(UnsupportedStoreError, url, "created twice", "two writers", "Use "):
                Log.create(url, settings=Settings(settings))
            assert server.buckets["bucket"] == {}, "no log, and no probe, is left behind"


def test_a_store_that_does_not_know_the_condition_is_refused(server):
    server.refuse("create", 501, "NotImplemented", "A header is not implemented")
    with failing(UnsupportedStoreError, "create", "not implemented", "Use ".lower()):
        Log.create(
            "gs://bucket/log", settings=Settings({"gcs.service.host": server.address, "gcs.no-auth": "true"})
        )
    assert server.buckets["bucket"] == {}


def test_a_store_that_keeps_its_word_passes(server):
    probe(store_at(server.address))
    assert server.buckets["bucket"] == {}
