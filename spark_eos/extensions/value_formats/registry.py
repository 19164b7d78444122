"""A schema registry of Confluent's kind: schemas by id, asked over HTTP and kept in the process."""

from __future__ import annotations

import base64
import json
import re
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from spark_eos.errors import ConfigError, SchemaRegistryError

_TIMEOUT_S = 10.0
_PAUSES_S = (0.2, 1.0)
"""Before the second and the third attempt."""

_MEDIA = "application/vnd.schemaregistry.v1+json"

_OF_REGISTRY = re.compile(r'"error_code"\s*:')
"""In each refusal of a registry. A proxy in front of one that is away answers 404 as well."""


class Registered(NamedTuple):
    """A schema as a registry has it: its text, its kind (``AVRO`` or ``JSON``), and those that it refers to."""

    text: str
    kind: str
    references: tuple[str, ...] = ()
    id: int = -1


class Registry(NamedTuple):
    """Where a registry is. ``user_info`` is ``user:password``, or None."""

    url: str
    user_info: str | None = None

    def __repr__(self) -> str:
        return f"Registry({self.url!r})"

    def schema(self, schema_id: int) -> Registered | None:
        """The schema of an id; None if the registry has none. Raises `SchemaRegistryError`, `ConfigError`."""
        key = (self.url, schema_id)
        with _lock:
            cached = _cache.get(key)
        if cached is not None:
            return cached
        answer = self._call("GET", f"/schemas/ids/{schema_id}")
        if answer is None:
            return None
        schema = self._registered({"id": schema_id, **answer})
        with _lock:
            _cache[key] = schema
        return schema

    def latest(self, subject: str) -> Registered | None:
        """The newest version of a subject; None if there is none."""
        answer = self._call("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        return None if answer is None else self._registered(answer)

    def register(self, subject: str, text: str, kind: str) -> int:
        """The id of a schema of a subject. It is registered if it is new."""
        body = {"schema": text} if kind == "AVRO" else {"schema": text, "schemaType": kind}
        answer = self._call("POST", f"/subjects/{quote(subject, safe='')}/versions", body, has="id")
        if answer is None:
            raise ConfigError(f"the schema registry {self.url} has no subjects: is it the root of its API?")
        if not isinstance(answer["id"], int):
            raise self._senseless(answer)
        return answer["id"]

    def _registered(self, answer: dict[str, Any]) -> Registered:
        try:
            return self._parsed(answer)
        except ConfigError:
            raise
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise self._senseless(answer) from error

    def _senseless(self, answer: dict[str, Any]) -> SchemaRegistryError:
        return SchemaRegistryError(
            f"the schema registry {self.url} gave an answer that makes no sense: {json.dumps(answer)[:200]}. Look "
            "at the schema there, or give the schemas by the topic's setting value.writer.schemas"
        )

    def _parsed(self, answer: dict[str, Any]) -> Registered:
        references: list[str] = []
        for reference in answer.get("references") or ():
            path = f"/subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}"
            inner_answer = self._call("GET", path)
            if inner_answer is None:
                raise ConfigError(
                    f"the schema registry {self.url} has no version {reference['version']} of subject "
                    f"{reference['subject']!r}, which the schema with id {answer.get('id')} refers to"
                )
            inner = self._parsed(inner_answer)
            references += [*inner.references, inner.text]
        if not isinstance(answer["schema"], str):
            raise TypeError("a schema is a text")
        kind = answer.get("schemaType") or "AVRO"
        return Registered(answer["schema"], kind, tuple(dict.fromkeys(references)), int(answer.get("id", -1)))

    def _call(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, has: str = "schema"
    ) -> dict[str, Any] | None:
        """The answer, which has a field of this name; None if the registry says itself that there is none (404)."""
        request = urllib.request.Request(  # noqa: S310  (the scheme is checked by `check_url`)
            self.url.rstrip("/") + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Accept": _MEDIA, "Content-Type": _MEDIA},
        )
        if self.user_info:
            # Not sent on to where a registry redirects, which may be anywhere.
            user_info = base64.b64encode(self.user_info.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {user_info}")
        reason: object = None
        for pause in (*_PAUSES_S, None):
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:  # noqa: S310
                    answer = json.load(reply)
                    if isinstance(answer, dict) and has in answer:
                        return answer
                    reason = f"HTTP 200 without {has!r}, it is no answer of a registry"
            except urllib.error.HTTPError as error:
                text = _beginning(error)
                if error.code == 404 and _OF_REGISTRY.search(text):
                    return None
                if error.code < 500 and error.code not in {404, 429}:
                    raise ConfigError(
                        f"the schema registry {self.url} refuses {method} {path}: HTTP {error.code} {text}. For 401 "
                        "and 403 set schema.registry.basic.auth.user.info, which goes to this URL alone, and not "
                        "where it redirects; for 409 and 422 change the schema"
                    ) from error
                reason = f"HTTP {error.code} {text}"
                if error.code == 404:
                    reason = f"{reason}, it is no answer of a registry: is the URL the root of its API?"
            except (OSError, HTTPException, ValueError) as error:
                reason = error
            if pause is not None:
                time.sleep(pause)
        raise SchemaRegistryError(
            f"the schema registry {self.url} did not answer {method} {path}: {reason}. Try again, or give the schemas "
            "by the topic's setting value.writer.schemas"
        )


def _beginning(refusal: urllib.error.HTTPError) -> str:
    """How the text of a refusal begins; empty if the connection ends before, as the status has said enough."""
    try:
        with refusal:  # Open, it holds the connection.
            return refusal.read(500).decode(errors="replace")
    except (OSError, HTTPException, ValueError):
        return ""


def check_url(url: str) -> str:
    """The URL of a registry. Raises `ConfigError` for another one, and for one with a password."""
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        netloc, rest = parts.netloc, parts.query + parts.fragment
    except ValueError:  # A port or an address that is none.
        is_url, netloc, rest = False, "", ""
    if not is_url:
        raise ConfigError(
            f"schema.registry.url={url!r}: expected a URL such as https://registry.example.com:8081"
        )
    if "@" in netloc:
        raise ConfigError(
            "schema.registry.url has a user and password in it, which the log would store: leave them out, and set "
            "schema.registry.basic.auth.user.info where the topic is read"
        )
    if rest:
        raise ConfigError(
            f"schema.registry.url={url!r} has a query or a fragment behind it, which the log would store, and no "
            "request would send: leave it out"
        )
    return url


_cache: dict[tuple[str, int], Registered] = {}
"""By URL and id. An id means the same schema for ever."""

_lock = Lock()
