"""Options of stores: endpoints, regions, credentials, by the names that Iceberg's FileIO gave them; encryption.

What is not given comes from where each cloud's own tools look for it: the environment, a profile, the machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlsplit

from spark_eos.config.nearest import suggestion
from spark_eos.config.option import Option, Table
from spark_eos.config.reader import Problems, parse
from spark_eos.config.values import Boolean, Text, ValueType
from spark_eos.errors import ConfigError

V = TypeVar("V")

PREFIXES = ("s3.", "adls.", "gcs.", "encryption.", "data.", "machines.")
"""How the names begin: no other option of this project does."""

_CLOUDS = ("s3.", "adls.", "gcs.")

_CLIENTS = "storage/objects/clients.py"
_ENCRYPTION = "extensions/encryption/store.py"

KEY_ID = re.compile(r"[A-Za-z0-9._/:@-]{1,120}", re.ASCII)
"""What the id of an encryption key may be."""

_KEYS = re.compile(r"(file|env):.+|[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", re.ASCII)


class _Seconds(ValueType[float]):
    allowed = "seconds, such as 30"

    def parse(self, value: object) -> float:
        text = str(value)
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) or not float(text):
            raise ValueError
        return float(text)


class _Address(ValueType[str]):
    allowed = "an address such as https://host:port"

    def parse(self, value: object) -> str:
        parts = urlsplit(str(value))
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError
        return str(value)


class _HostPort(ValueType[str]):
    allowed = "the address of this machine for the others: host or host:port, not 0.0.0.0"

    def parse(self, value: object) -> str:
        parts = urlsplit(f"//{value}")
        _ = parts.port  # Raises `ValueError` if it is none.
        if not parts.hostname or parts.netloc != str(value) or "@" in parts.netloc:
            raise ValueError
        if parts.hostname in {"0.0.0.0", "::"}:  # noqa: S104  (it is refused)
            raise ValueError
        return str(value)


class _Keys(ValueType[str]):
    allowed = "a reference: file:/path, env:NAME or module:attribute"

    def parse(self, value: object) -> str:
        if not _KEYS.fullmatch(str(value)):
            raise ValueError
        return str(value)


class _KeyId(ValueType[str]):
    allowed = "1 to 120 characters: letters, digits and . _ / : @ -"

    def parse(self, value: object) -> str:
        if not KEY_ID.fullmatch(str(value)):
            raise ValueError
        return str(value)


def _text(name: str, doc: str, *, is_secret: bool = False) -> Option:
    return Option(name, Text(), None, doc, _CLIENTS, "Iceberg", is_secret=is_secret)


def _flag(name: str, doc: str, *, default: bool = False) -> Option:
    return Option(name, Boolean(), default, doc, _CLIENTS, "Iceberg")


def _address(name: str, doc: str, *, is_secret: bool = False) -> Option:
    return Option(name, _Address(), None, doc, _CLIENTS, "Iceberg", is_secret=is_secret)


def _connection(prefix: str) -> tuple[Option, ...]:
    """What all clouds have."""
    return (
        _text(f"{prefix}.ca-file", "A file with certificates (PEM) to trust as well as the system's."),
        Option(
            f"{prefix}.connect-timeout",
            _Seconds(),
            5,
            "Seconds to wait for a connection.",
            _CLIENTS,
            "Iceberg",
        ),
        _address(f"{prefix}.proxy-uri", "The proxy on the way to the store.", is_secret=True),
        Option(
            f"{prefix}.request-timeout",
            _Seconds(),
            30,
            "Seconds for one request and its answer.",
            _CLIENTS,
            "Iceberg",
        ),
    )


STORE = Table(
    "object store setting",
    _text("s3.access-key-id", "The access key (`AWS_ACCESS_KEY_ID`)."),
    _flag("s3.anonymous", "`true`: do not sign requests."),
    _address("s3.endpoint", "The address of a store that is not AWS (`AWS_ENDPOINT_URL`)."),
    _flag("s3.path-style-access", "`false`: the bucket is part of the host's name.", default=True),
    _text("s3.profile-name", "The profile of `~/.aws/config` and `~/.aws/credentials` (`AWS_PROFILE`)."),
    _text("s3.region", "The bucket's region (`AWS_REGION`, else `us-east-1`)."),
    _text("s3.secret-access-key", "The key's secret (`AWS_SECRET_ACCESS_KEY`).", is_secret=True),
    _text("s3.session-token", "The token of temporary credentials (`AWS_SESSION_TOKEN`).", is_secret=True),
    *_connection("s3"),
    _text("adls.account-key", "The account's key (`AZURE_STORAGE_ACCOUNT_KEY`).", is_secret=True),
    _text("adls.account-name", "The account, if the URL does not name it (`AZURE_STORAGE_ACCOUNT_NAME`)."),
    _text("adls.client-id", "The application's id (`AZURE_CLIENT_ID`)."),
    _text("adls.client-secret", "The application's secret (`AZURE_CLIENT_SECRET`).", is_secret=True),
    _address("adls.endpoint", "The address of the blob service (`AZURE_STORAGE_ENDPOINT`)."),
    _text("adls.sas-token", "A shared access signature (`AZURE_STORAGE_SAS_TOKEN`).", is_secret=True),
    _text("adls.tenant-id", "The application's tenant (`AZURE_TENANT_ID`)."),
    _text("adls.token", "A bearer token (`AZURE_STORAGE_TOKEN`).", is_secret=True),
    *_connection("adls"),
    _flag("gcs.no-auth", "`true`: send no credentials."),
    _text("gcs.oauth2.token", "A bearer token (`GOOGLE_BEARER_TOKEN`).", is_secret=True),
    _text("gcs.service-account-file", "The file of a service account (`GOOGLE_APPLICATION_CREDENTIALS`)."),
    _address("gcs.service.host", "Another address of the service (`GOOGLE_BASE_URL`)."),
    *_connection("gcs"),
    Option(
        "data.url",
        Text(),
        None,
        "Where a log that is created or copied keeps its data files, if not beside its entries. The log remembers it. "
        "Each option of an object store with `data.` before it (`data.s3.region`) is for that place alone.",
        "storage/settings.py",
        "eoslog",
    ),
    Option(
        "encryption.key.id",
        _KeyId(),
        None,
        "The key with which new data files are encrypted.",
        _ENCRYPTION,
        "eoslog",
    ),
    Option(
        "encryption.keys",
        _Keys(),
        None,
        "Where the keys are: `file:/path`, `env:NAME` or `module:attribute`. Never a key itself.",
        _ENCRYPTION,
        "eoslog",
        is_secret=True,
    ),
    Option(
        "machines.listen",
        _HostPort(),
        None,
        "Share entries with the writers of other machines, which reach this process here while it leads.",
        "storage/urls.py",
        "eoslog",
    ),
)


def is_store_option(name: str) -> bool:
    """Whether a name is one of a store's options, known or not."""
    return name.lower().startswith(PREFIXES)


def without_store_options(options: Mapping[str, V]) -> dict[str, V]:
    """What was given for others than the store."""
    return {name: value for name, value in options.items() if not is_store_option(str(name))}


def only_store_options(options: Mapping[str, V]) -> dict[str, V]:
    """What was given for the store."""
    return {name: value for name, value in options.items() if is_store_option(str(name))}


def store_option(name: str) -> Option:
    """The option of a name in lower case: of the data's own store, that of an object store after ``data.``.

    Raises `KeyError` for an unknown one.
    """
    inner = name.removeprefix("data.")
    return STORE[inner if inner != name and inner.startswith(_CLOUDS) else name]


def read_store_options(options: Mapping[str, object], problems: Problems) -> dict[str, str]:
    """Options of a store, by their names in lower case, as text.

    An unknown name and a value that means nothing are problems; none quotes a secret.
    """
    settings: dict[str, str] = {}
    for key, value in options.items():
        name, text = str(key).lower(), str(value).strip()
        with problems.about(str(key)):
            try:
                option = store_option(name)
            except KeyError:
                raise _unknown(str(key)) from None
            parse(STORE, option, text)
            settings[name] = text
    return settings


def _unknown(name: str) -> ConfigError:
    """Of all names only those that begin alike are listed: there are many."""
    prefix = next((prefix for prefix in PREFIXES if name.lower().startswith(prefix)), "")
    names = [option_name for option_name in STORE if option_name.startswith(prefix)]
    return ConfigError(f"unknown {STORE.noun} {name!r}; {suggestion(name, names, STORE)}")
