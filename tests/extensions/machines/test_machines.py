"""Group commit across machines: real HTTPS and real processes; and what a leader says is only a reason to look."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from spark_eos.errors import ConfigError
from spark_eos.extensions.machines import mailbox as mailbox_module
from spark_eos.extensions.machines import server
from spark_eos.extensions.machines.channel import MachinesChannel
from spark_eos.extensions.machines.client import call
from spark_eos.extensions.machines.hint import HINT, Hint, StoredHints, decode_hint, encode_hint
from spark_eos.extensions.machines.limits import FORGIVEN_S, PATIENCE, REACH, SILENCE_S, SPREAD_S
from spark_eos.extensions.machines.mailbox import LEADS_S, Mailbox
from spark_eos.extensions.machines.message import (
    MAX_BODY_BYTES,
    Answer,
    decode_answer,
    decode_bundle,
    encode_answer,
    encode_bundle,
)
from spark_eos.extensions.machines.open import NetworkChannel
from spark_eos.extensions.machines.server import MEMBER, PATH, HttpsHost
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.storage import MemoryStore, PosixStore, open_store
from spark_eos.storage.group_channel import SUBMISSION_TTL_S, FileGroupChannel
from spark_eos.storage.settings import Settings
from tests import starting
from verification.inline_executor import InlineExecutor

MEMBER_ID = "0" * 32


class MachineStore(PosixStore):
    """A folder that is a bucket: all see the objects, and each machine has a channel of its own."""

    requests_are_free = False

    def __init__(self, folder, machine, create_s=0.0):
        super().__init__(folder / "log")
        self.local = folder / f"machine-{machine}"
        self.create_s = create_s

    def create(self, name, data):
        time.sleep(self.create_s)
        super().create(name, data)

    def group_channel(self, name):
        return NetworkChannel(self, FileGroupChannel(self.local), "127.0.0.1")


# -- HTTPS ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def host():
    host = HttpsHost("127.0.0.1", 0)
    yield host
    host.close()


def test_submissions_arrive_and_the_newest_entry_is_told(host, monkeypatch):
    monkeypatch.setattr("spark_eos.extensions.machines.mailbox.LEADS_S", 600.0)
    host.mailbox.note_lead()
    host.mailbox.publish(7)
    peer = call(host.hint, MEMBER_ID)
    answer = peer.exchange(encode_bundle([b"one", b"two"]), 6)
    peer.close()
    assert answer == Answer(7, leads=True)
    assert host.mailbox.submissions() == [b"one", b"two"]


def test_no_proxy_of_the_environment_is_on_the_way(host, monkeypatch):
    for name in ("HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    peer = call(host.hint, MEMBER_ID)
    assert peer.exchange(b"", -1) is not None
    peer.close()


def test_the_port_is_told_from_an_address_of_ipv6(host):
    hint = Hint(host.hint.leader, "::1", 7, host.hint.certificate, host.hint.token)
    peer = call(hint, MEMBER_ID)
    assert peer is not None
    assert (peer._client.base_url.host, peer._client.base_url.port) == ("::1", 7)
    peer.close()


def test_an_answer_that_is_too_long_is_not_read_to_its_end(host, monkeypatch):
    monkeypatch.setattr(server, "encode_answer", lambda answer: encode_answer(answer) + b" " * 2000)
    peer = call(host.hint, MEMBER_ID)
    assert peer.exchange(b"", -1) is None
    peer.close()


def test_another_token_is_refused(host):
    before = host.mailbox.submissions()
    peer = call(host.hint.__class__(**{**vars(host.hint), "token": "another"}), "1" * 32)
    assert peer.exchange(encode_bundle([b"stranger"]), -1) is None
    peer.close()
    assert host.mailbox.submissions() == before


def test_a_process_with_another_key_is_not_the_leader(host):
    """A stale hint: by now something else listens at the address."""
    other = HttpsHost("127.0.0.1", 0)
    hint = Hint(host.hint.leader, "127.0.0.1", other.hint.port, host.hint.certificate, other.hint.token)
    peer = call(hint, MEMBER_ID)
    assert peer.exchange(encode_bundle([b"secret"]), -1) is None
    peer.close()
    assert other.mailbox.submissions() == []
    other.close()


def test_a_body_that_is_too_large_is_not_read_to_its_end(host):
    peer = call(host.hint, "2" * 32)
    body = MAX_BODY_BYTES.to_bytes(4, "big") + b"x" * MAX_BODY_BYTES
    assert peer.exchange(body, -1) is None
    peer.close()
    assert not any(len(one) == MAX_BODY_BYTES for one in host.mailbox.submissions())


@pytest.mark.parametrize(
    "headers", [{}, {MEMBER: "../../etc", "x-known": "1"}, {MEMBER: MEMBER_ID, "x-known": "1e9"}]
)
def test_a_request_without_its_headers_is_refused(host, headers):
    sent = {"authorization": f"Bearer {host.hint.token}", **headers}
    url = f"https://127.0.0.1:{host.hint.port}{PATH}"
    assert httpx.post(url, headers=sent, verify=False, trust_env=False).status_code == 400


@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
def test_a_leader_that_closed_says_so_or_does_not_answer():
    """Python does not close the socket of one that ends the connection before the handshake."""
    host = HttpsHost("127.0.0.1", 0)
    host.mailbox.note_lead()
    peer = call(host.hint, MEMBER_ID)
    host.close()
    answer = peer.exchange(b"", -1)
    peer.close()
    assert answer is None or not answer.leads


def test_a_hint_shows_no_token(host):
    assert host.hint.token not in repr(host.hint)


# -- What goes over the network ---------------------------------------------------------------------------


def test_a_bundle_comes_back():
    assert decode_bundle(encode_bundle([b"", b"one", b"x" * 300])) == [b"", b"one", b"x" * 300]
    assert decode_bundle(encode_bundle([b"x" * MAX_BODY_BYTES, b"small"])) == [b"small"]


@pytest.mark.parametrize("body", [b"\0", b"\0\0\0\5abc", b"\xff\xff\xff\xff"])
def test_a_bundle_that_is_cut_off_is_none(body):
    assert decode_bundle(body) is None


def test_an_answer_comes_back():
    assert decode_answer(encode_answer(Answer(3, leads=False))) == Answer(3, leads=False)
    for other in (
        b"",
        b"[]",
        b"{}",
        b'{"newest": "3", "leads": true}',
        b'{"newest": 3, "leads": 1}',
        b"\xff",
    ):
        assert decode_answer(other) is None


def test_a_hint_comes_back():
    hint = Hint("me", "host", 70, "certificate", "token", 3)
    assert decode_hint(encode_hint(hint)) == hint
    for other in (b"", b"[1]", b"{}", b'{"version": 2, "leader": "me"}', b'{"version": 1}', b" " * 30_000):
        assert decode_hint(other) is None
    assert decode_hint(encode_hint(Hint("me", port=70_000))) is None


# -- The core, without a network --------------------------------------------------------------------------


class Peer:
    """A leader whose answers the test sets."""

    def __init__(self, answers):
        self.answers = answers
        self.got = []
        self.closed = False

    def exchange(self, bundle, known):
        self.got.append(decode_bundle(bundle))
        return self.answers(known)

    def close(self):
        self.closed = True


class FakeHost:
    def __init__(self, channel):
        self.hint = Hint(f"{channel.name}{len(channel.hosts)}")
        self.mailbox = Mailbox(lambda: channel.time)
        self.closed = False

    def close(self):
        self.closed = True
        self.mailbox.resign()

    abandon = close


class Machine(MachinesChannel):
    """On a machine of its own; ``peers`` are the leaders that it can reach."""

    def __init__(self, folder, store, name):
        self.time, self.name, self.hosts, self.peers, self.called = 100.0, name, [], {}, []
        super().__init__(
            FileGroupChannel(folder / name),
            StoredHints(store),
            self.open,
            self.reach_out,
            lambda: self.time,
            lambda: 0.5,
            InlineExecutor().submit,
        )

    def open(self):
        self.hosts.append(FakeHost(self))
        return self.hosts[-1]

    def reach_out(self, hint):
        self.called.append(hint.leader)
        return self.peers.get(hint.leader)


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def machine(tmp_path, store):
    return lambda name: Machine(tmp_path, store, name)


@pytest.fixture
def follower(machine, store):
    """It follows a leader that answers as ``follower.says`` does."""
    one = machine("b")
    one.says = lambda known: Answer(known, leads=True)
    one.peer = one.peers["a"] = Peer(lambda known: one.says(known))  # noqa: PLW0108  (tests change what it says)
    StoredHints(store).write(Hint("a"))
    assert not one.try_lead()
    one.submit(b"request")
    return one


def test_without_a_hint_a_process_leads_and_says_so(machine, store):
    one = machine("a")
    assert one.try_lead()
    assert decode_hint(store.read(HINT).to_pybytes()).leader == one.hosts[0].hint.leader


def test_the_other_machine_hands_over(follower):
    assert follower.published(5) is None
    assert follower.peer.got == [[b"request"]]
    follower.says = lambda known: Answer(known + 1, leads=True)
    assert follower.published(5) == b""
    assert not follower.try_lead()


@pytest.mark.parametrize("answer", [None, Answer(9, leads=False)], ids=["none", "leads no more"])
def test_a_leader_without_an_answer_is_asked_no_more(follower, answer):
    follower.says = lambda _: answer
    assert follower.published(5) is None
    assert follower.peer.closed
    assert follower.try_lead(), "it writes for itself"


def test_who_names_an_entry_that_is_not_there_is_asked_no_more(follower):
    follower.says = lambda known: Answer(known + 1, leads=True)
    assert follower.published(5) == b""
    follower.distrust()
    assert follower.try_lead()
    assert not follower.hosts, "all machines notice it at once: one of them leads"
    follower.time += SPREAD_S
    assert follower.try_lead()
    assert len(follower.hosts) == 1, "it leads itself"


def test_a_leader_that_leaves_out_what_it_was_given_is_asked_no_more(follower):
    for seq in range(PATIENCE + 1):
        follower.says = lambda known: Answer(known + 1, leads=True)
        assert (follower.published(seq) is None) == (seq == PATIENCE)
        follower.published(seq + 1)
    assert follower.peer.closed


def test_a_leader_that_creates_nothing_is_asked_no_more(follower):
    follower.time += 5.1
    assert follower.published(5) is None
    assert follower.peer.closed


def test_a_leader_that_others_hear_is_not_replaced(follower, store):
    """This machine alone is cut off: it writes for itself, and takes the others' leader from none."""
    follower.says = lambda _: None
    follower.published(5)
    for beat in range(1, 4):
        StoredHints(store).write(Hint("a", beat=beat))
        follower.time += SPREAD_S
        assert follower.try_lead()
    assert not follower.hosts
    for _ in range(4):
        follower.time += SILENCE_S / 2
        assert follower.try_lead()
    assert len(follower.hosts) == 1, "it leads, as the hint did not change any more"


def test_a_leader_that_others_hear_is_asked_again_later(follower, store):
    follower.says = lambda _: None
    follower.published(5)
    follower.says = lambda known: Answer(known, leads=True)
    for beat in range(1, 7):
        StoredHints(store).write(Hint("a", beat=beat))
        follower.time += FORGIVEN_S / 5
        follower.try_lead()
    assert follower.called == ["a", "a"]
    assert not follower.try_lead()


def test_of_two_leaders_the_hint_decides(machine, store):
    one, other = machine("a"), machine("b")
    assert one.try_lead()
    other.peers = {}
    StoredHints(store).write(Hint("c"))
    one.peers["c"] = Peer(lambda known: Answer(known, leads=True))
    one.time += 1
    assert one.try_lead()  # It reads the hint now, and learns that another process leads.
    assert one.hosts[0].closed
    one.time += 2
    assert not one.try_lead()


def test_who_writes_alone_hears_that_others_wait(machine, store):
    winner = machine("w")
    assert not winner.leader_token()
    StoredHints(store).write(Hint("a", beat=1))
    winner.time += 3
    assert winner.leader_token()
    assert not winner.leader_token()
    winner.time += 3
    assert not winner.leader_token(), "nothing has changed"
    StoredHints(store).write(Hint("a", beat=2))
    winner.time += 3
    assert winner.leader_token()
    StoredHints(store).write(Hint("a", beat=3))
    assert not winner.leader_token(), "it does not look at every call"


def test_a_leader_without_commits_leads_no_more():
    now = 0.0
    mailbox = Mailbox(lambda: now)
    mailbox.note_lead()
    assert mailbox.answer().leads
    now += LEADS_S + 0.1
    assert not mailbox.answer().leads


def test_the_child_of_a_fork_is_a_member_of_its_own(host, tmp_path):
    channel = MachineStore(tmp_path, "a").group_channel("log")
    parent = channel._reach_out(host.hint)
    channel.forked()
    child = channel._reach_out(host.hint)
    assert parent._client.headers[MEMBER] != child._client.headers[MEMBER]
    for peer in (parent, child):
        peer.close()


def test_a_process_whose_port_is_taken_leads_no_other_machine_and_says_so(tmp_path, caplog):
    channel = MachineStore(tmp_path, "a").group_channel("log")
    with socket.create_server((channel._host_name, 0)) as taken:
        channel._port = taken.getsockname()[1]
        assert channel._open() is None
    assert f"{channel._port} cannot be listened at" in caplog.text


def test_who_waits_for_news_hears_that_the_leader_resigns():
    mailbox, heard = Mailbox(lambda: 0.0), []
    mailbox.note_lead()
    mailbox.put("one", encode_bundle([b"a"]))
    for seq in (5, 4):
        mailbox.publish(seq)
    assert mailbox.answer().newest == 5, "what is there stays there"
    mailbox.on_news = lambda: heard.append(mailbox.answer().leads)
    mailbox.resign()
    assert heard == [False]
    assert mailbox.submissions() == [], "its members are another leader's"


def test_a_leader_commits_nothing_for_a_member_that_is_silent():
    now = 0.0
    mailbox = Mailbox(lambda: now)
    mailbox.put("one", encode_bundle([b"a"]))
    now += SUBMISSION_TTL_S
    mailbox.put("other", encode_bundle([b"b"]))
    assert mailbox.submissions() == [b"a", b"b"]
    now += 0.1
    assert mailbox.submissions() == [b"b"]


def test_a_member_that_says_the_same_again_is_not_silent():
    now = 0.0
    mailbox = Mailbox(lambda: now)
    for _ in range(2):
        mailbox.put("one", encode_bundle([b"a"]))
        now += SUBMISSION_TTL_S
    assert mailbox.submissions() == [b"a"]


def test_a_leader_has_so_many_members_at_most(monkeypatch):
    monkeypatch.setattr(mailbox_module, "MAX_MEMBERS", 2)
    now = 0.0
    mailbox = Mailbox(lambda: now)
    members = ("one", "other", "third", "one")
    assert [mailbox.put(member, encode_bundle([b"a"])) for member in members] == [True, True, False, True]
    now += SUBMISSION_TTL_S + 0.1
    assert mailbox.put("third", encode_bundle([b"a"])), "the first two are silent"


def test_a_bundle_that_ends_early_is_none():
    body = encode_bundle([b"a", b"bcd"])
    assert decode_bundle(body) == [b"a", b"bcd"]
    assert [decode_bundle(body[:at]) for at in range(6, len(body))] == [None] * (len(body) - 6)


# -- The setting ------------------------------------------------------------------------------------------


def test_without_the_setting_nothing_of_it_is_used():
    assert not isinstance(open_store("s3://bucket/log").group_channel("id"), MachinesChannel)


def test_the_setting_is_for_object_stores(tmp_path):
    store = open_store("s3://bucket/log", Settings({"machines.listen": "127.0.0.1:0"}))
    channel = store.group_channel("id")
    assert isinstance(channel, NetworkChannel)
    assert channel.reach == REACH
    without = open_store("s3://bucket/log").group_channel("id")
    assert channel._local._folder != without._folder, (
        "processes without the setting do not meet those that have it"
    )
    with pytest.raises(ConfigError, match="leave it out"):
        open_store(tmp_path / "log", Settings({"machines.listen": "127.0.0.1"}))


@pytest.mark.parametrize("value", ["", "0.0.0.0", "[::]:1", "host:port", "host:70000", "user@host", "a/b"])
def test_an_address_that_means_nothing_is_refused(value):
    with pytest.raises(ConfigError, match=r"machines\.listen"):
        Settings({"machines.listen": value})


# -- Real processes ---------------------------------------------------------------------------------------


class Writer:
    """A process on a machine of its own, which commits until it is killed."""

    def __init__(self, folder, number, network="there", create_s=0.0):
        arguments = folder, number, network, create_s
        self.process = starting.start(
            "extensions/machines/commits_until_killed", *arguments, stdout=subprocess.PIPE
        )

    def commits(self, count):
        """Wait until it has had so many more answers."""
        return [self.process.stdout.readline().strip() for _ in range(count)]

    def end(self):
        """Kill it; what it was told until then."""
        self.process.send_signal(signal.SIGKILL)
        rest = self.process.stdout.read().split("\n")[:-1]
        self.process.wait()
        self.process.stdout.close()
        return rest


@pytest.fixture
def start(tmp_path):
    """Begins a writer; what is left running at the end of the test is killed."""
    running = []

    def begin(*args):
        running.append(Writer(tmp_path, *args))
        return running[-1]

    yield begin
    for one in running:
        if one.process.poll() is None:
            one.end()


@pytest.mark.deep
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_the_others_go_on_without_their_leader(tmp_path, start, how):
    """What a process was told is in the log, once; whether its leader lives, dies or sleeps."""
    log = Log.create(MachineStore(tmp_path, "observer"))
    writers = [start(number) for number in range(3)]
    told = [name for writer in writers for name in writer.commits(5)]
    deadline = time.monotonic() + 60
    leader = None
    while leader is None and time.monotonic() < deadline:
        hint = StoredHints(log.store).read()
        for writer in writers:
            told += writer.commits(1)
            if hint is not None and _listens(writer.process.pid, hint.port):
                leader = writer
    assert leader is not None, "no process leads"
    leader.process.send_signal(how)
    others = [writer for writer in writers if writer is not leader]
    told += [name for writer in others for name in writer.commits(20)]
    if how == signal.SIGSTOP:
        leader.process.send_signal(signal.SIGCONT)
        told += leader.commits(3)
    for writer in writers:
        told += writer.end()
    assert set(told) <= set(log.follow().topics)
    assert len(told) == len(set(told))


@pytest.mark.deep
def test_a_machine_that_reaches_no_other_shares_entries(tmp_path, start):
    """Its requests are objects in the store, and the leader takes them along. Entries take as long as in S3."""
    log = Log.create(MachineStore(tmp_path, "observer"))
    writers = [start(0, "there", 0.1), start(1, "there", 0.1), start(2, "cut off", 0.1)]
    told = []
    seq, deadline = 1, time.monotonic() + 120
    while not any(len(names) > 1 and any("t-2-" in name for name in names) for names in _topics(log, seq)):
        assert time.monotonic() < deadline, "the leader takes no objects along"
        seq = log.state.seq
        told += [name for writer in writers for name in writer.commits(1)]
    for writer in writers:
        told += writer.end()
    assert set(told) <= set(log.follow().topics)
    assert len(told) == len(set(told))


def _topics(log, seq):
    """What the entries from ``seq`` on create, of those that are not retired."""
    for at in range(seq, log.follow().seq + 1):
        if not (data := log.store.read(paths.entry(at, 100_000))).size:
            continue
        entry = decode_entry(data, at, "entry")
        yield [getattr(action, "name", "") for request in entry.requests for action in request.actions]


def _listens(pid, port):
    """Whether a process has a listening socket at ``port``."""
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            sockets.add(str(entry.readlink()))
    parts = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return any(
        part[1].endswith(f":{port:04X}") and part[3] == "0A" and f"socket:[{part[9]}]" in sockets
        for part in parts
    )
