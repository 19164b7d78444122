"""Master keys by their ids. Options hold references to them (``file:/path``, ``env:NAME``), never keys."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Protocol

from spark_eos.config.store import KEY_ID
from spark_eos.errors import ConfigError

KEY_BYTES = 32
"""AES-256."""

_MODULE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", re.ASCII)
_EXPECTED = "expected file:/path, env:NAME or module:attribute"


class KeyProvider(Protocol):
    """Where master keys come from."""

    def key(self, key_id: str) -> bytes | None:
        """The 32 bytes of a key; None if there is none of that id."""


class _Keys:
    """Keys in a JSON object: ``{"id": "<32 bytes in Base64>"}``. ``place`` names it in errors, which show no key."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._place!r})"

    def key(self, key_id: str) -> bytes | None:
        """As `KeyProvider.key`. Looked up each time: a key that was added is there at once."""
        keys: object = None
        try:
            keys = json.loads(self._text())
        except ValueError:  # Its text would show what is there.
            keys = None
        if not isinstance(keys, dict):
            raise ConfigError(f'keys in {self._place}: not a JSON object {{"id": "32 bytes in Base64"}}')
        text = keys.get(key_id)
        if text is None:
            return None
        try:
            key = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != KEY_BYTES:
            raise ConfigError(f"keys in {self._place}: {key_id!r} is not {KEY_BYTES} bytes in Base64")
        return key

    def _text(self) -> str:
        raise NotImplementedError


class FileKeys(_Keys):
    """Keys in a JSON file."""

    def __init__(self, path: str) -> None:
        super().__init__(f"file:{path}")
        self._path = path

    def _text(self) -> str:
        try:
            return Path(self._path).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"keys in {self._place} cannot be read: {error.strerror}") from error


class EnvironmentKeys(_Keys):
    """Keys in an environment variable, as JSON."""

    def __init__(self, name: str) -> None:
        super().__init__(f"env:{name}")
        self._name = name

    def _text(self) -> str:
        text = os.environ.get(self._name)
        if text is None:
            raise ConfigError(f"keys in {self._place}: there is no such environment variable")
        return text


def open_keys(reference: str) -> KeyProvider:
    """The keys that a reference names: ``file:/path``, ``env:NAME``, or ``module:attribute`` for a provider's object.

    Raises `ConfigError`, which does not quote the reference: it may be a key that was given by mistake.
    """
    scheme, _, target = reference.partition(":")
    if scheme == "file" and target:
        return FileKeys(target)
    if scheme == "env" and target:
        return EnvironmentKeys(target)
    if not _MODULE.fullmatch(reference):
        raise ConfigError(f"the reference to encryption keys has another form; {_EXPECTED}")
    try:
        provider: object = import_module(scheme)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{scheme}.".startswith(f"{missing}."):
            raise ConfigError(f"the reference to encryption keys names nothing; {_EXPECTED}") from None
        raise ConfigError(
            f"encryption keys: module {scheme} cannot be imported: {error!r}; install what it needs in each process "
            "that has these settings"
        ) from error
    try:
        for part in target.split("."):
            provider = getattr(provider, part)
    except AttributeError:
        raise ConfigError(f"the reference to encryption keys names nothing; {_EXPECTED}") from None
    if not callable(getattr(provider, "key", None)):
        raise ConfigError(f"encryption keys: {reference} has no method key(key_id)")
    return provider  # type: ignore[return-value]


def check_key_id(key_id: str) -> None:
    """Raise `ConfigError` unless it can be the id of a key."""
    if not KEY_ID.fullmatch(key_id):
        raise ConfigError(
            "the id of an encryption key has 1 to 120 characters: letters, digits and . _ / : @ -"
        )


def shown(keys: KeyProvider) -> str:
    """What errors call them. A provider of another package might show its keys itself."""
    return repr(keys) if isinstance(keys, _Keys) else type(keys).__name__
