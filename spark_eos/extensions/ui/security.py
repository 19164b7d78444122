"""Who may ask: hosts, origins, the token, sessions, protection against forged requests, and headers of all answers."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
import time
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from spark_eos.errors import ConfigError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "eoslog_session"
CSRF = "x-csrf-token"

_SESSION_S = 12 * 3600.0
_MOST_SESSIONS = 1000
_SHORTEST_TOKEN = 16

_PUBLIC = ("/static/", "/login", "/favicon.ico")
"""They hold nothing of any log."""

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: with that a browser sends "Origin: null" with the form that logs in.
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """What the page was started with: the token, if one is needed, and the names of its host."""

    def __init__(
        self,
        token: str | None = None,
        host: str = "127.0.0.1",
        names: Iterable[str] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if token is not None and len(token) < _SHORTEST_TOKEN:
            raise ConfigError(f"the token of the page must have at least {_SHORTEST_TOKEN} characters")
        if token is None and not is_loopback(host):
            raise ConfigError(f"host {host} can be reached from other machines: a token is needed")
        self._token = token
        self._monotonic = monotonic
        self._secret = secrets.token_bytes(32)
        self._sessions: dict[str, float] = {}
        self._names = {"localhost", host.casefold(), *(name.casefold() for name in names)}
        if not is_loopback(host):
            self._names |= {socket.gethostname().casefold(), socket.getfqdn().casefold()}

    @property
    def needs_token(self) -> bool:
        """Whether a person has to log in."""
        return self._token is not None

    def is_own_host(self, header: str) -> bool:
        """Whether a Host header names this page: a name of it, or an address, which no DNS server can choose."""
        try:
            parts = urlsplit(f"//{header}")
            host = parts.hostname or ""
            parts.port  # noqa: B018  (it raises for a port that is no number)
        except ValueError:
            return False
        if parts.netloc != header or "@" in header:
            return False
        if host in self._names:
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True

    def log_in(self, token: str) -> str | None:
        """A new session, if this is the token."""
        if not self._is_token(token):
            return None
        now = self._monotonic()
        self._sessions = {name: until for name, until in self._sessions.items() if until > now}
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        session = secrets.token_urlsafe(32)
        self._sessions[session] = now + _SESSION_S
        return session

    def log_out(self, session: str) -> None:
        """End a session."""
        self._sessions.pop(session, None)

    def is_session(self, session: str) -> bool:
        """Whether a cookie is that of a session."""
        return self._sessions.get(session, 0.0) > self._monotonic()

    def is_bearer(self, authorization: str) -> bool:
        """Whether an Authorization header has the token."""
        scheme, _, token = authorization.partition(" ")
        return scheme.casefold() == "bearer" and self._is_token(token.strip())

    def _is_token(self, token: str) -> bool:
        return self._token is not None and hmac.compare_digest(token.encode(), self._token.encode())

    def csrf(self, session: str) -> str:
        """What the scripts of a session send with every question, and no other site can know."""
        return hmac.new(self._secret, session.encode(), sha256).hexdigest()

    def is_csrf(self, session: str, value: str) -> bool:
        """Whether it is that."""
        return hmac.compare_digest(self.csrf(session).encode(), value.encode())


class Guard:
    """Stands before the page: refuses what may not be asked, and gives every answer safe headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(Request(scope))
        await (refusal or self._app)(scope, receive, send_safely)

    def _refusal(self, request: Request) -> Response | None:
        """Why a request is not passed on; None if it is."""
        headers, access = request.headers, self._access
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not access.is_own_host(hosts[0]):
            return _refused(
                421,
                "the Host header does not name this page: start it with --allow-host NAME if its host has that name",
            )
        if not _is_same_site(request, headers):
            return _refused(403, "the request comes from another site")
        path = request.scope["path"]
        if path.startswith(_PUBLIC):
            return None
        session = request.cookies.get(COOKIE, "")
        by_header = False
        if access.needs_token:
            by_header = access.is_bearer(headers.get("authorization", ""))
            if not by_header and not access.is_session(session):
                if path == "/" and request.method in {"GET", "HEAD"}:
                    return redirect(request, "/login")
                return _refused(401, "log in first, or send the token as Authorization: Bearer TOKEN")
        else:
            session = ""
        request.scope["eoslog.session"] = session
        if (
            request.method not in {"GET", "HEAD"}
            and not by_header
            and not access.is_csrf(session, headers.get(CSRF, ""))
        ):
            return _refused(403, "the X-CSRF-Token header is missing or wrong: load the page again")
        return None


def _is_same_site(request: Request, headers: Headers) -> bool:
    """Whether a request comes from this page, from a program, or is a person's who follows a link to the front page."""
    is_link = request.method in {"GET", "HEAD"} and request.scope["path"] in {"/", "/login"}
    if headers.get("sec-fetch-site", "none") not in {"same-origin", "none"} and not is_link:
        return False
    origin = headers.get("origin")
    if origin is None or is_link:
        return True
    return urlsplit(origin).netloc.casefold() == headers["host"].casefold()


def redirect(request: Request, path: str) -> Response:
    """To another page, for the same log. What is behind the # of an address the browser keeps."""
    log = request.query_params.get("log")
    return RedirectResponse(path if log is None else f"{path}?{urlencode({'log': log})}", 303)


def _refused(status: int, reason: str) -> Response:
    headers: dict[str, Any] = {"www-authenticate": "Bearer"} if status == 401 else {}
    return JSONResponse({"error": reason, "code": "REFUSED"}, status, headers)
