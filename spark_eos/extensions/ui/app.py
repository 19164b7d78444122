"""The page as an ASGI application: files, login, questions, and the stream of events."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from spark_eos.errors import (
    EosLogError,
    InvalidRequestError,
    RetriableError,
    StorageError,
    StorePermissionError,
)
from spark_eos.extensions.ui.areas import (
    aborts,
    audit,
    groups,
    health,
    history,
    producers,
    publications,
    records,
    storage,
    strip,
    topics,
    transactions,
)
from spark_eos.extensions.ui.areas.overview import overview, pulse
from spark_eos.extensions.ui.files import login_page, static_routes
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Area, Question
from spark_eos.extensions.ui.security import COOKIE, Access, Guard, redirect
from spark_eos.extensions.ui.writes import groups as group_writes
from spark_eos.extensions.ui.writes import produce
from spark_eos.extensions.ui.writes import topics as topic_writes
from spark_eos.extensions.ui.writes.change import change_outcome, refuse

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

_LOG = logging.getLogger(__name__)

_MOST_BYTES = 64 << 10
"""Of a question."""

_MOST_STREAMS = 500
_HEARTBEAT_S = 15.0
_LOGIN_PAUSE_S = 0.5

_READS: dict[str, Area] = {
    "overview": overview,
    "topics": topics.topics,
    "topic": topics.show_topic,
    "records": records.records,
    "record": records.show_record,
    "export": records.export,
    "key-partition": records.key_partition,
    "groups": groups.groups,
    "group": groups.show_group,
    "query": groups.show_query,
    "query-batches": groups.query_batches,
    "transactions": transactions.open_transactions,
    "producers": producers.producers,
    "audit": audit.audit,
    "group-plan": group_writes.plan,
    "settings": topic_writes.settings,
    "change-outcome": change_outcome,
    "abort-outcome": aborts.abort_outcome,
    "history": history.entries,
    "strip": strip.strip,
    "entry": history.show_entry,
    "entry-at": history.entry_at,
    "storage": storage.storage,
    "count-objects": storage.count_objects,
    "publications": publications.publications,
    "health": health.health,
    "check-health": health.check_health,
}

_WRITES: dict[str, Area] = {
    "abort": aborts.abort,
    "group-reset": group_writes.reset,
    "group-remove": group_writes.remove_members,
    "group-forget": group_writes.delete_offsets,
    "group-delete": group_writes.delete,
    "topic-create": topic_writes.create,
    "topic-partitions": topic_writes.add_partitions,
    "topic-alter": topic_writes.alter_topic,
    "topic-delete": topic_writes.delete,
    "produce": produce.produce,
    "records-delete": topic_writes.delete_records,
    "log-alter": topic_writes.alter_log,
}


def create_app(
    followers: Sequence[Follower],
    access: Access,
    *,
    allow_writes: bool = False,
    is_closing: Callable[[], bool] = lambda: False,
) -> ASGIApp:
    """The page of these logs. It starts the followers, and closes them in the end."""
    page = _Page(followers, access, allow_writes, is_closing)
    routes = [
        *static_routes(),
        Route("/login", page.show_login, methods=["GET"]),
        Route("/login", page.log_in, methods=["POST"]),
        Route("/logout", page.log_out, methods=["POST"]),
        Route("/session", page.session),
        Route("/events", page.events),
        Route("/api/{area}", page.ask, methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes, lifespan=page.lifespan), access)


class _Page:
    """The answers that depend on the logs, and on how the page was started."""

    def __init__(
        self,
        followers: Sequence[Follower],
        access: Access,
        allow_writes: bool,
        is_closing: Callable[[], bool],
    ) -> None:
        self._followers, self._access = followers, access
        self._allow_writes, self._is_closing = allow_writes, is_closing
        refused: dict[str, Area] = {**dict.fromkeys(_WRITES, refuse), "abort": aborts.refuse_abort}
        self._areas = {**_READS, **(_WRITES if allow_writes else refused)}

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """The followers follow as long as the page is served."""
        for follower in self._followers:
            follower.start()
        yield
        for follower in self._followers:
            await run_in_threadpool(follower.close)

    async def session(self, request: Request) -> Response:
        """What the scripts need to know first."""
        urls = [follower.url for follower in self._followers]
        return JSONResponse(
            {
                "csrf": self._access.csrf(request.scope["eoslog.session"]),
                "writes": self._allow_writes,
                "login": self._access.needs_token,
                "version": version("spark-eos"),
                "logs": [{"name": name, "url": url} for name, url in zip(names_of(urls), urls, strict=True)],
            }
        )

    async def ask(self, request: Request) -> Response:
        """One question."""
        name = request.path_params["area"]
        area = self._areas.get(name)
        if area is None:
            return _error(404, "there is no such question", "NOT_FOUND")
        try:
            question = Question(await _body(request))
            follower = self._followers[question.number("log", 0, most=len(self._followers) - 1)]
            follower.asked()
            return _json(await run_in_threadpool(area, follower, question))
        except EosLogError as error:
            return _error(_status(error), str(error), error.code)
        except Exception as error:  # noqa: BLE001  (the page goes on, and shows it)
            _LOG.exception("the question %s failed", name)
            return _error(500, f"the page failed: {type(error).__name__}; its log says more", "INTERNAL")

    async def events(self, request: Request) -> Response:
        """The stream of a log."""
        if sum(follower.watchers for follower in self._followers) >= _MOST_STREAMS:
            return _error(503, "too many browsers watch this page", "BUSY")
        number = request.query_params.get("log", "0")
        if not (number.isascii() and number.isdecimal()) or int(number[:9]) >= len(self._followers):
            return _error(404, "there is no such log", "NOT_FOUND")
        stream = _events(self._followers[int(number)], self._is_closing)
        return StreamingResponse(stream, media_type="text/event-stream")

    async def log_in(self, request: Request) -> Response:
        """A cookie for the token."""
        try:
            body = await _limited(request)
            fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=10)
        except (InvalidRequestError, ValueError):
            return login_page("The form is too long.", 413)
        cookie = self._access.log_in(fields.get("token", [""])[0])
        if cookie is None:
            await asyncio.sleep(_LOGIN_PAUSE_S)
            return login_page("This is not the token. It was printed when the page was started.", 401)
        answer = redirect(request, "/")
        # The page itself is served without TLS: that the browser uses it shows in the Origin, which a proxy passes on.
        secure = request.headers.get("origin", "").startswith("https://")
        answer.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=secure, path="/")
        return answer

    async def show_login(self, request: Request) -> Response:
        """The form, if a token is needed."""
        return login_page("", 200) if self._access.needs_token else redirect(request, "/")

    async def log_out(self, request: Request) -> Response:
        """The session ends."""
        self._access.log_out(request.scope["eoslog.session"])
        answer = JSONResponse({})
        answer.delete_cookie(COOKIE, path="/")
        return answer


async def _events(follower: Follower, is_closing: Callable[[], bool]) -> AsyncIterator[str]:
    """An event after each poll; a comment now and then, which shows that the connection is there."""
    event = asyncio.Event()
    follower.watch(event)
    try:
        yield "retry: 2000\n\n"
        while not is_closing() and not follower.is_closed:
            yield f"data: {json.dumps(pulse(follower))}\n\n"
            try:
                await asyncio.wait_for(event.wait(), _HEARTBEAT_S)
            except asyncio.TimeoutError:
                yield ": still there\n\n"
            event.clear()
    finally:
        follower.unwatch(event)


# -- Questions and answers --------------------------------------------------------------------------------


async def _limited(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise InvalidRequestError(f"a question has at most {_MOST_BYTES} bytes")
    return bytes(body)


async def _body(request: Request) -> Mapping[str, Any]:
    data = await _limited(request)
    try:
        fields = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        raise InvalidRequestError("a question is a JSON object") from None
    if not isinstance(fields, dict):
        raise InvalidRequestError("a question is a JSON object")
    return fields


def _json(answer: Mapping[str, Any]) -> Response:
    # Text of records may have halves of surrogate pairs, which UTF-8 has not: they stay escaped.
    text = json.dumps(answer, separators=(",", ":"), allow_nan=False, default=str)
    return Response(text, media_type="application/json")


def _error(status: int, text: str, code: str) -> Response:
    return JSONResponse({"error": text, "code": code}, status)


def _status(error: EosLogError) -> int:
    if isinstance(error, StorePermissionError):
        return 403
    if isinstance(error, InvalidRequestError):
        return 400
    return 503 if isinstance(error, (RetriableError, StorageError)) else 409


def names_of(urls: Sequence[str]) -> list[str]:
    """Short names of logs: as many last parts of each address as tell it from the others."""
    parts = [url.rstrip("/").split("/") for url in urls]

    def named(at: int) -> str:
        for count in range(1, len(parts[at])):
            name = "/".join(parts[at][-count:])
            if name and all(
                "/".join(other[-count:]) != name for number, other in enumerate(parts) if number != at
            ):
                return name
        return urls[at]

    return [named(at) for at in range(len(urls))]
