"""Who has not shown the token yet does not disturb a leader: a bounded number of connections, each for a while."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import resource
import socket
import ssl
import subprocess
import threading
import time
import weakref
from asyncio.sslproto import SSLProtocol
from contextlib import ExitStack, suppress
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvicorn

from spark_eos.extensions.machines import server
from spark_eos.extensions.machines.client import HttpsPeer
from spark_eos.extensions.machines.hint import Hint
from spark_eos.extensions.machines.server import HttpsHost
from spark_eos.serving import door
from spark_eos.serving.door import STRANGER_S, Door, Places, places_for
from tests.starting import start

DESCRIPTORS = 256
LONGEST_S = 120
LONG_S = 60
MEMBER = "1" * 32

# -- The rule ---------------------------------------------------------------------------------------------


class Connection:
    """``number``: the port of the other side."""

    def __init__(self, number):
        self.peer = "127.0.0.1", number
        self.is_open = True

    def fileno(self):
        return 3 if self.is_open else -1


def entered(places, now, *numbers):
    """Some come in, one after the other; who had to leave for that."""
    connections = {number: Connection(number) for number in numbers}
    left = [places.enter(one.peer, one, now) for one in connections.values()]
    return connections, [one.peer[1] for some in left for one in some]


def test_the_oldest_stranger_leaves_for_a_new_one():
    places = Places(3, 10)
    assert entered(places, 0.0, 1, 2, 3)[1] == []
    assert entered(places, 0.1, 4, 5)[1] == [1, 2]


def test_a_stranger_has_only_so_long():
    places = Places(3, 10)
    entered(places, 10.0, 1)
    entered(places, 12.0, 2)
    assert places.next_until == 10.0 + STRANGER_S
    assert places.overdue(10.0 + STRANGER_S - 0.01) == []
    assert [one.peer[1] for one in places.overdue(10.0 + STRANGER_S)] == [1]
    assert [one.peer[1] for one in places.leave()] == [2]
    assert places.next_until is None


def test_who_has_shown_the_token_stays():
    places = Places(2, 10)
    entered(places, 0.0, 1)
    assert places.admit(("127.0.0.1", 1))
    assert entered(places, 1.0, 2, 3, 4)[1] == [2]
    assert [one.peer[1] for one in places.overdue(1000.0)] == [3, 4]
    assert places.admit(("127.0.0.1", 1))
    assert not places.admit(("127.0.0.1", 3))  # It was turned out meanwhile.


def test_peers_have_only_so_many_places_and_leave_them():
    places = Places(8, 2)
    connections, _ = entered(places, 0.0, 1, 2, 3)
    assert [places.admit(("127.0.0.1", number)) for number in (1, 2, 3)] == [True, True, False]
    connections[1].is_open = False
    assert places.admit(("127.0.0.1", 3))
    assert entered(places, 0.0, 2)[1] == []  # The same port again: a stranger.
    assert [one.peer[1] for one in places.leave()] == [2]
    entered(places, 0.0, 2)
    assert places.admit(("127.0.0.1", 2))
    assert places.overdue(1000.0) == []


@pytest.mark.parametrize("descriptors", [-1, 64, 256, 1024, 1 << 20])
def test_places_leave_descriptors_for_the_process(descriptors):
    places = places_for(descriptors)
    assert 0 < places.strangers <= 128
    assert descriptors < 0 or 2 * places.strangers + places.peers <= descriptors * 5 / 8


def test_a_process_without_a_limit_has_as_many_places_as_one_with_a_high_one():
    without, many = places_for(-1), places_for(1 << 20)
    assert (without.strangers, without.peers) == (many.strangers, many.peers)


def test_those_that_say_nothing_leave_one_after_the_other(monkeypatch):
    monkeypatch.setattr(door, "STRANGER_S", 0.05)

    async def run(listening):
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, sock=listening)
        for _ in range(2):
            with await asyncio.to_thread(socket.create_connection, listening.getsockname(), LONG_S) as one:
                assert await asyncio.to_thread(one.recv, 1) == b""
        server.close()

    asyncio.run(run(Door.at(socket.create_server(("127.0.0.1", 0)))))


def test_one_that_has_left_itself_is_no_failure():
    with socket.socket() as left:
        door.turn_out([left])


def test_the_head_of_a_request_is_enough_at_an_application():
    calls = []

    async def application(scope, receive, send):
        calls.append((scope["type"], receive, send))

    listening = SimpleNamespace(admit=calls.append)
    admitting = door.Admitting(application, listening)
    for scope in ({"type": "lifespan"}, {"type": "http", "client": ["127.0.0.1", 5]}):
        asyncio.run(admitting(scope, 1, 2))
    assert calls == [("lifespan", 1, 2), ("127.0.0.1", 5), ("http", 1, 2)]


def test_without_descriptors_strangers_leave_and_the_loop_does_not_spin(monkeypatch):
    """asyncio waits after an error of `accept`, and calls it again before that, as often as it may."""
    monkeypatch.setattr(asyncio.constants, "ACCEPT_RETRY_DELAY", 3600)  # A second goes by beside other work.
    told, again, full = [], [], cycle([errno.EMFILE, errno.ENFILE])

    def accept(_):
        raise OSError(next(full), "Too many open files")

    async def run(listening, ends):
        loop, was_told = asyncio.get_running_loop(), asyncio.Event()

        def note(_, what):
            told.append(what["message"])
            was_told.set()

        loop.set_exception_handler(note)
        server = await loop.create_server(asyncio.Protocol, sock=listening, backlog=100)
        ends.append(await asyncio.to_thread(socket.create_connection, listening.getsockname()))
        await was_told.wait()
        await asyncio.sleep(0.1)
        with pytest.raises(OSError, match="Too many open files") as found:
            listening.accept()
        again.append(found.type)
        server.close()

    monkeypatch.setattr(socket.socket, "accept", accept)
    ends = []
    asyncio.run(run(Door.at(socket.create_server(("127.0.0.1", 0))), ends))
    ends[0].close()
    assert told == ["socket.accept() out of system resource"]
    assert again == [OSError], "asyncio waits again"


# -- A real leader ----------------------------------------------------------------------------------------


class Leader:
    """A process of few descriptors that leads others, and commits when it is told to."""

    def __init__(self, folder, descriptors=DESCRIPTORS):
        self._errors = (folder / "errors").open("w+")
        self._process = start(
            "extensions/machines/leads_with_few_descriptors",
            folder / "log",
            descriptors,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self.hint = Hint(**json.loads(self._process.stdout.readline()))

    def commit(self):
        self._process.stdin.write("commit\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline()
        self._errors.seek(0)
        assert said, self._errors.read()[-4000:]

    @property
    def memory(self):
        """In bytes."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return 1024 * int(status.partition("VmRSS:")[2].split()[0])

    @property
    def descriptors(self):
        return len([*Path(f"/proc/{self._process.pid}/fd").iterdir()])

    def close(self):
        self._process.kill()
        self._process.communicate()
        self._errors.close()


@pytest.fixture
def leader(tmp_path):
    one = Leader(tmp_path)
    yield one
    one.close()


def connect(hint):
    return socket.create_connection((hint.host, hint.port), timeout=LONGEST_S)


def encrypted(hint):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(connect(hint))


def _said(make, data):
    def stranger(hint):
        one = make(hint)
        with suppress(OSError):
            one.sendall(data)
        return one

    return stranger


HEAD = b"POST /v1/submissions HTTP/1.1\r\nhost: leader\r\n"
STRANGERS = {
    "idle": connect,
    "garbage": _said(connect, b"\0" * 1000),
    "half a greeting": _said(connect, b"\x16\x03\x01\x02\x00\x01\x00"),
    "a greeting, and no request": encrypted,
    "half a request": _said(encrypted, HEAD),
    "another token": _said(encrypted, HEAD + b"authorization: Bearer x\r\ncontent-length: 0\r\n\r\n"),
    "a huge length": _said(encrypted, HEAD + b"content-length: 1000000000000\r\n\r\n" + b"x" * 100_000),
}


def in_halves(*halves):
    """Says the first half and goes away, or has an answer first."""

    def stranger(hint):
        one = _said(*halves)(hint)
        if halves[1].endswith(b"\r\n\r\n"):
            one.recv(1)
        return one

    return stranger


LEAVING = {
    **STRANGERS,
    "no HTTP": in_halves(encrypted, b"nothing\r\n\r\n"),
    "another certificate": lambda hint: ssl.create_default_context().wrap_socket(
        connect(hint), server_hostname=hint.host
    ),
}


@pytest.fixture
def connections(monkeypatch):
    """The connections of this process with TLS, from here on, that are in memory."""
    made, begin = weakref.WeakSet(), SSLProtocol.__init__

    def noted(protocol, *given, **named):
        made.add(protocol)
        begin(protocol, *given, **named)

    monkeypatch.setattr(SSLProtocol, "__init__", noted)
    return made


@pytest.mark.parametrize("kind", LEAVING)
def test_who_has_left_is_gone_without_the_garbage_collector(connections, kind):
    """In a process that has many objects it seldom looks at old ones, and each of these has 256 KB."""
    host = HttpsHost("127.0.0.1", 0)
    gc.disable()
    try:
        for _ in range(5):
            with suppress(ssl.SSLError), LEAVING[kind](host.hint):
                pass
        with encrypted(host.hint) as one:  # All before it are accepted.
            assert connections
            with suppress(ssl.SSLEOFError):  # The server of Python 3.10 ends without TLS's last word.
                one.unwrap()
        end = time.monotonic() + LONG_S
        while connections:
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        gc.enable()
        host.close()


def test_half_a_body_keeps_no_place(monkeypatch):
    """Its machine may be gone, and an answer is not what it waits for."""
    monkeypatch.setattr(server, "STRANGER_S", 0.05)
    host = HttpsHost("127.0.0.1", 0)
    host.mailbox.note_lead()
    token = f"authorization: Bearer {host.hint.token}\r\n{server.MEMBER}: {MEMBER}\r\n{server.KNOWN}: 0\r\n"
    with encrypted(host.hint) as one:
        one.sendall(HEAD + token.encode() + b"content-length: 1000\r\n\r\nhalf")
        one.settimeout(LONG_S)
        said = b""
        while part := one.recv(65536):
            said += part
    assert said.startswith(b"HTTP/1.1 408 ")
    assert host.mailbox.submissions() == []
    host.close()


def test_a_server_that_is_told_to_end_before_it_has_begun_leaves_no_socket(monkeypatch):
    """Older uvicorns do not close it then: machines would come in, and no one would answer."""
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **_named: None)
    host = HttpsHost("127.0.0.1", 0)
    host._thread.join(LONG_S)
    with pytest.raises(ConnectionRefusedError):
        connect(host.hint)


def test_a_server_that_is_closed_lets_no_one_in_any_more():
    host = HttpsHost("127.0.0.1", 0)
    with encrypted(host.hint):
        host.close()
    host._thread.join(LONG_S)
    with pytest.raises(ConnectionRefusedError):
        connect(host.hint)


def test_a_process_that_can_start_no_thread_does_not_listen(monkeypatch):
    """As at the end of the interpreter. That is one more reason why it cannot listen."""
    doors, at = [], Door.at

    def made(listening):
        doors.append(at(listening))
        return doors[0]

    def start(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Door, "at", made)
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(OSError, match="can't start new thread"):
        HttpsHost("127.0.0.1", 0)
    assert [one.fileno() for one in doors] == [-1]


def crowd(leader, stack, stranger, count):
    """So many connections, or as many as come in; one that is turned out while it greets is one, too."""
    found = []
    for _ in range(count):
        with suppress(OSError):
            found.append(stack.enter_context(stranger(leader.hint)))
    return found


def is_closed(one):
    """Whether the leader closes a connection."""
    one.settimeout(LONGEST_S)
    try:
        while one.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


@pytest.mark.deep
@pytest.mark.parametrize("kind", STRANGERS)
def test_strangers_leave_commits_and_peers_alone(leader, kind):
    peer = HttpsPeer(leader.hint, MEMBER)
    with ExitStack() as stack:
        stack.callback(peer.close)
        assert peer.exchange(b"", 6)
        leader.commit()
        found = crowd(leader, stack, STRANGERS[kind], 400)
        for _ in range(10):
            leader.commit()
            assert leader.descriptors < DESCRIPTORS - 64
            assert peer.exchange(b"", 6), "the peer has lost its place"
        late = HttpsPeer(leader.hint, "2" * 32)
        stack.callback(late.close)
        end = time.monotonic() + LONGEST_S
        while late.exchange(b"", 6) is None:
            assert time.monotonic() < end, "no other peer comes in"
        assert all(is_closed(one) for one in found)
        before = leader.descriptors
        leader.commit()
    assert before < 64


@pytest.mark.deep
def test_strangers_take_no_memory(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    if wanted < 2000:
        pytest.skip("the test needs 2,000 descriptors: ulimit -n 4096")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    leader = Leader(tmp_path, wanted)
    try:
        with ExitStack() as stack:
            leader.commit()
            before = leader.memory
            crowd(leader, stack, encrypted, 1500)
            leader.commit()
            assert leader.memory - before < 100 << 20
    finally:
        leader.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
