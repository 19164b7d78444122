"""Settings of object stores: endpoints, regions, credentials, by the names that Iceberg's FileIO gave them.

Whatever is not set comes from where each cloud's own tools look for it: the environment, a profile, the machine.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from spark_eos.errors import ConfigError

__all__ = ["NO_SETTINGS", "PREFIXES", "SETTINGS", "Setting", "Settings", "is_setting", "split_settings"]

V = TypeVar("V")

HIDDEN = "***"
"""What stands for a secret wherever settings are shown."""

_SHORTEST_SECRET = 4
"""Shorter values are not looked for in texts: they would be found everywhere."""


_HARMLESS = re.compile(r"https?|localhost|[0-9.TZ:-]+")
"""Parts of an address or a signature that may be shown: times, versions, numbers."""


class Setting(NamedTuple):
    """One key: what it is for, whether its value is a secret, and how its value is checked."""

    doc: str
    is_secret: bool = False
    check: Callable[[str], str | None] = lambda _: None
    """What is wrong with a value; None if nothing is."""


def _boolean(value: str) -> str | None:
    return None if value.lower() in {"true", "false"} else "true or false"


def _seconds(value: str) -> str | None:
    return (
        None
        if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", value) and float(value) > 0
        else "seconds, such as 30"
    )


def _address(value: str) -> str | None:
    parts = urlsplit(value)
    if parts.scheme in {"http", "https"} and parts.hostname:
        return None
    return "an address such as https://host:port"


def _common(prefix: str, what: str) -> dict[str, Setting]:
    return {
        f"{prefix}.ca-file": Setting("a file with certificates (PEM) to trust as well as the system's"),
        f"{prefix}.connect-timeout": Setting("seconds to wait for a connection (default 5)", check=_seconds),
        f"{prefix}.proxy-uri": Setting(f"the proxy on the way to {what}", is_secret=True, check=_address),
        f"{prefix}.request-timeout": Setting(
            "seconds for one request and its answer (default 30)", check=_seconds
        ),
    }


SETTINGS: dict[str, Setting] = {
    "s3.access-key-id": Setting("the access key (AWS_ACCESS_KEY_ID)"),
    "s3.anonymous": Setting("true: do not sign requests", check=_boolean),
    "s3.endpoint": Setting("the address of a store that is not AWS (AWS_ENDPOINT_URL)", check=_address),
    "s3.path-style-access": Setting(
        "false: the bucket is part of the host's name (default true)", check=_boolean
    ),
    "s3.profile-name": Setting("the profile of ~/.aws/config and ~/.aws/credentials (AWS_PROFILE)"),
    "s3.region": Setting("the bucket's region (AWS_REGION; default us-east-1)"),
    "s3.secret-access-key": Setting("the key's secret (AWS_SECRET_ACCESS_KEY)", is_secret=True),
    "s3.session-token": Setting("the token of temporary credentials (AWS_SESSION_TOKEN)", is_secret=True),
    **_common("s3", "the store"),
    "adls.account-key": Setting("the account's key (AZURE_STORAGE_ACCOUNT_KEY)", is_secret=True),
    "adls.account-name": Setting("the account, if the URL does not name it (AZURE_STORAGE_ACCOUNT_NAME)"),
    "adls.client-id": Setting("the application's id (AZURE_CLIENT_ID)"),
    "adls.client-secret": Setting("the application's secret (AZURE_CLIENT_SECRET)", is_secret=True),
    "adls.endpoint": Setting("the address of the blob service (AZURE_STORAGE_ENDPOINT)", check=_address),
    "adls.sas-token": Setting("a shared access signature (AZURE_STORAGE_SAS_TOKEN)", is_secret=True),
    "adls.tenant-id": Setting("the application's tenant (AZURE_TENANT_ID)"),
    "adls.token": Setting("a bearer token (AZURE_STORAGE_TOKEN)", is_secret=True),
    **_common("adls", "the store"),
    "gcs.no-auth": Setting("true: send no credentials", check=_boolean),
    "gcs.oauth2.token": Setting("a bearer token (GOOGLE_BEARER_TOKEN)", is_secret=True),
    "gcs.service-account-file": Setting("the file of a service account (GOOGLE_APPLICATION_CREDENTIALS)"),
    "gcs.service.host": Setting("another address of the service (GOOGLE_BASE_URL)", check=_address),
    **_common("gcs", "the store"),
}
"""Every key there is. Values are text; space around them does not count."""

PREFIXES = ("s3.", "adls.", "gcs.")
"""How the keys begin: no other option of this project does."""


class Settings(Mapping[str, str]):
    """Checked settings by key. Cannot be changed, can be hashed and pickled; secrets are not shown.

    Raises `ConfigError` for an unknown key and for a value that means nothing; it never quotes a secret.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, object] | Iterable[tuple[str, object]] = ()) -> None:
        found: dict[str, str] = {}
        for key, value in dict(values).items():
            name, text = str(key).lower(), str(value).strip()
            setting = SETTINGS.get(name)
            if setting is None:
                raise _unknown(str(key))
            if not text:
                raise ConfigError(f"{name} is empty; give it a value or leave it out")
            wanted = setting.check(text)
            if wanted is not None:
                shown = HIDDEN if setting.is_secret else repr(text)
                raise ConfigError(f"{name}={shown}: expected {wanted}")
            found[name] = text
        self._values = dict(sorted(found.items()))

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(tuple(self._values.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self._values == other._values

    def __repr__(self) -> str:
        shown = (
            f"{name}={HIDDEN if SETTINGS[name].is_secret else repr(value)}"
            for name, value in self._values.items()
        )
        return f"Settings({', '.join(shown)})"

    def __reduce__(self) -> tuple[object, ...]:
        return Settings, (tuple(self._values.items()),)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """The value of a key that is true or false."""
        return self.get(name, str(default)).lower() == "true"

    def of(self, prefix: str) -> Settings:
        """Those whose keys begin with ``prefix``."""
        return Settings({name: value for name, value in self._values.items() if name.startswith(prefix)})

    def scrub(self, text: str) -> str:
        """``text`` without the secrets of these settings, should it contain any."""
        for name, value in self._values.items():
            if SETTINGS[name].is_secret:
                # Of a signature or a proxy's address, the parts that are secret by themselves, too.
                for part in (value, *re.split(r"[?&=:@/]+", unquote(value))):
                    if len(part) >= _SHORTEST_SECRET and not _HARMLESS.fullmatch(part):
                        text = text.replace(part, HIDDEN)
        return text


NO_SETTINGS = Settings()
"""Everything from the environment."""


def is_setting(key: str) -> bool:
    """Whether an option's key is one of a store's, known or not."""
    return key.lower().startswith(PREFIXES)


def split_settings(options: Mapping[str, V]) -> tuple[dict[str, V], Settings]:
    """The options that are no store's, and those that are. Raises as `Settings`."""
    rest = {key: value for key, value in options.items() if not is_setting(str(key))}
    return rest, Settings({key: value for key, value in options.items() if is_setting(str(key))})


def _unknown(key: str) -> ConfigError:
    near = difflib.get_close_matches(key.lower(), SETTINGS, n=1)
    prefix = next((prefix for prefix in PREFIXES if key.lower().startswith(prefix)), "")
    known = ", ".join(name for name in SETTINGS if name.startswith(prefix))
    hint = f"did you mean {near[0]}?" if near else f"known are {known}"
    return ConfigError(f"unknown setting {key!r} of an object store; {hint}")
