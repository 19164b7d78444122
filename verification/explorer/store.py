"""What the actors of an exploration share: objects, and calls that wait until they are answered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import Any, NamedTuple

import greenlet
import pyarrow as pa

from spark_eos.errors import ObjectExistsError, ObjectNotFoundError
from spark_eos.storage.group_channel import GroupChannel
from spark_eos.storage.store import Data, ObjectInfo, Store, Upload
from spark_eos.storage.uploads import buffered

__all__ = ["GROUP_CHANNEL", "Asking", "Call", "ExploredStore", "Object", "digest", "effect"]


GROUP_CHANNEL = "group-channel/"
"""What begins with it belongs to no log: there actors meet."""

AGE_S = 1e6
"""How old an object is by the store's clock: an actor may have been slow, and that clock may be wrong."""


def digest(*parts: bytes) -> bytes:
    """16 bytes that stand for ``parts``."""
    hashed = blake2b(digest_size=16)
    for part in parts:
        hashed.update(len(part).to_bytes(4, "big"))
        hashed.update(part)
    return hashed.digest()


class Object(NamedTuple):
    """What the store holds under a name."""

    body: pa.Buffer
    digest: bytes


class Call(NamedTuple):
    """A call of the store that waits for its answer."""

    operation: str
    name: str
    body: Object | None
    offset: int
    length: int | None
    digest: bytes
    """Stands for the call."""

    @staticmethod
    def of(
        operation: str, name: str, body: Object | None = None, offset: int = 0, length: int | None = None
    ) -> Call:
        """A call, with its digest."""
        content = b"" if body is None else body.digest
        stands = digest(f"{operation} {name} {offset} {length}".encode(), content)
        return Call(operation, name, body, offset, length, stands)


class Asking(greenlet.greenlet):
    """A greenlet whose calls are answered by the scheduler."""

    who = ""
    """Whose it is."""

    def ask(self, call: Call) -> object:
        """Wait for the answer to a call of the store."""
        raise NotImplementedError


class ExploredStore(Store):
    """What the actors share. Outside of them it just works, in the thread that explores."""

    url = "explored://"
    requests_are_free = True

    def __init__(
        self,
        objects: MutableMapping[str, Object],
        meets: Callable[[ExploredStore, str], GroupChannel] | None = None,
        *,
        ages: bool = False,
    ) -> None:
        """``ages``: it has a clock, by which everything is old at once."""
        self.objects = objects
        self._ages = ages
        self._meets = meets
        self._explores = threading.current_thread()

    def create(self, name: str, data: Data) -> None:
        body = bytes(data)
        self._ask(Call.of("create", name, Object(pa.py_buffer(body), digest(body))))

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        return buffered(lambda body: self.create(name, body))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        found = self._ask(Call.of("read", name, None, offset, length))
        assert isinstance(found, Object)
        return found.body

    def size(self, name: str) -> int:
        found = self._ask(Call.of("size", name))
        assert isinstance(found, int)
        return found

    def identity(self, name: str) -> str:
        """Nothing takes another's place here, so it is no step to look."""
        return name

    def age_s(self, name: str) -> float | None:
        if not self._ages:
            return None
        found: Any = self._ask(Call.of("age_s", name))
        return None if found is None else float(found)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        found: Any = self._ask(Call.of("list", prefix))
        return iter(found)

    def delete(self, name: str) -> None:
        self._ask(Call.of("delete", name))

    def overwrite(self, name: str, data: Data) -> None:
        body = bytes(data)
        self._ask(Call.of("overwrite", name, Object(pa.py_buffer(body), digest(body))))

    def group_channel(self, name: str) -> GroupChannel | None:
        running = greenlet.getcurrent()
        if self._meets is None or not isinstance(running, Asking):
            return None
        return self._meets(self, running.who)

    def _ask(self, call: Call) -> object:
        # A thread that an actor started would write past the exploration, into what is no log of it. Compared before
        # getcurrent is called, for the reason given in `verification.simulator.world.World.current`.
        assert threading.current_thread() is self._explores, (
            f"{threading.current_thread().name} asks for {call.operation} {call.name}: it is no actor"
        )
        running = greenlet.getcurrent()
        if isinstance(running, Asking):
            return running.ask(call)
        put, drop, answer = effect(self.objects, call)
        if put is not None:
            self.objects[put[0]] = put[1]
        if drop is not None:
            del self.objects[drop]
        if isinstance(answer, BaseException):
            raise answer
        return answer


Effect = tuple[tuple[str, Object] | None, str | None, object]
"""What a call puts into the store, what it takes out, and its answer (raised if it is an exception)."""


def effect(objects: Mapping[str, Object], call: Call) -> Effect:
    """What a call does that nothing goes wrong with."""
    there = objects.get(call.name)
    if call.operation == "list":
        found = sorted(name for name in objects if name.startswith(call.name))
        return None, None, [ObjectInfo(name, objects[name].body.size) for name in found]
    if call.operation == "create" and there is not None:
        return None, None, ObjectExistsError(f"{call.name} exists")
    if call.operation in {"create", "overwrite"}:
        assert call.body is not None
        return (call.name, call.body), None, None
    if call.operation == "delete":
        return None, call.name if there is not None else None, None
    if there is None:
        return None, None, ObjectNotFoundError(f"there is no {call.name}")
    if call.operation == "age_s":
        return None, None, AGE_S if there.body.size else None
    if call.operation == "size":
        return None, None, int(there.body.size)
    if call.offset == 0 and call.length is None:
        return None, None, there
    start = min(call.offset, there.body.size)
    rest = there.body.size - start
    body = there.body.slice(start, rest if call.length is None else min(call.length, rest))
    return None, None, Object(body, digest(body))
