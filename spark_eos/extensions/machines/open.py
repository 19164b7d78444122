"""The group channel of many machines for a log in an object store, as the setting ``machines.listen`` asks for it."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any
from uuid import uuid4

from spark_eos.errors.hidden import safe_url
from spark_eos.errors.loading import Loading
from spark_eos.extensions.machines.channel import MachinesChannel
from spark_eos.extensions.machines.hint import Hint, StoredHints
from spark_eos.extensions.machines.mailbox import Host
from spark_eos.extensions.machines.message import Peer
from spark_eos.extensions.machines.objects import RequestObjects
from spark_eos.serving.address import split_address
from spark_eos.storage.forks import tell_in_child
from spark_eos.storage.group_channel import GroupChannel
from spark_eos.storage.store import Store

_LOG = logging.getLogger(__name__)


class NetworkChannel(MachinesChannel):
    """`MachinesChannel` over HTTPS; this process listens at ``listen`` (``host`` or ``host:port``) while it leads."""

    def __init__(self, store: Store, local: GroupChannel, listen: str) -> None:
        self._host_name, self._port = split_address(listen)
        self._store_url = store.url
        self._member = uuid4().hex
        # Not the shared generator: that one is the application's to seed.
        chance = random.SystemRandom().random
        super().__init__(
            local,
            StoredHints(store),
            self._open,
            self._reach_out,
            time.monotonic,
            chance,
            _in_daemon_thread,
            RequestObjects(store, time.monotonic, _in_daemon_thread, lambda: uuid4().hex),
        )
        tell_in_child(self)

    def forked(self) -> None:
        super().forked()
        self._member = uuid4().hex

    def _open(self) -> Host | None:
        from spark_eos.extensions.machines.server import HttpsHost

        try:
            return HttpsHost(self._host_name, self._port)
        except OSError as error:
            _LOG.warning(
                "%s: machines.listen %s:%d cannot be listened at (%s): this process leads no other machine",
                safe_url(self._store_url),
                self._host_name,
                self._port,
                error,
            )
            return None

    def _reach_out(self, hint: Hint) -> Peer | None:
        from spark_eos.extensions.machines.client import call

        return call(hint, self._member)


def _in_daemon_thread(work: Callable[[], Any]) -> Future[Any]:
    """In a daemon thread: the process may end, or fork, meanwhile. Here and now if there can be no thread any more."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  (raised again where the result is asked for)
            future.set_exception(error)

    try:
        threading.Thread(target=run, name="group-commit-aside", daemon=True).start()
    except RuntimeError:  # The interpreter ends.
        run()
    return future


def channels(listen: str) -> Callable[[Store, GroupChannel], GroupChannel]:
    """What makes the channel of a store from that of this machine. Raises `ConfigError` if a package is missing."""
    check_installed()
    return partial(NetworkChannel, listen=listen)


def check_installed() -> None:
    """Load the client and the server: not inside of a commit. Raise `ConfigError` if a package is missing."""
    with Loading("machines.listen", "machines", "cryptography", "httpx", "starlette", "uvicorn"):
        from spark_eos.extensions.machines import client, server  # noqa: F401
