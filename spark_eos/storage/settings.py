"""The settings of a store, as a value that can be handed on and shows no secret.

The table of them is `spark_eos.config.store.STORE`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote

from spark_eos.config.reader import HIDDEN, Problems, parse
from spark_eos.config.store import (
    STORE,
    only_store_options,
    read_store_options,
    store_option,
    without_store_options,
)
from spark_eos.errors.hidden import safe_url

V = TypeVar("V")

ENCRYPTION = "encryption."
"""How the names of the settings begin that are for a log in any store, and for nothing else that is there."""

DATA = "data."
"""How the names of the settings begin that are for the store of data files alone."""

DATA_URL = "data.url"
"""Where that is: counts where a log is created."""

MACHINES = "machines."
"""How the names of the settings begin that are for a log in an object store, and for nothing else that is there."""

_SHORTEST_SECRET = 4
"""Shorter values are not looked for in texts: they would be found everywhere."""


_HARMLESS = re.compile(r"https?|localhost|[0-9.TZ:-]+")
"""Parts of an address or a signature that may be shown: times, versions, numbers."""


class Settings(Mapping[str, str]):
    """Checked settings by key. Cannot be changed, can be hashed and pickled; secrets are not shown.

    Raises `ConfigError` for unknown keys and values that mean nothing, all in one; it never quotes a secret.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, object] | Iterable[tuple[str, object]] = ()) -> None:
        problems = Problems()
        options = read_store_options(dict(values), problems)
        problems.check()
        self._values = dict(sorted(options.items()))

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
            f"{name}={HIDDEN if store_option(name).is_secret else repr(safe_url(value))}"
            for name, value in self._values.items()
        )
        return f"Settings({', '.join(shown)})"

    def __reduce__(self) -> tuple[object, ...]:
        return Settings, (tuple(self._values.items()),)

    def flag(self, name: str) -> bool:
        """The value of a setting that is true or false, or its default."""
        return bool(self._value(name))

    def seconds(self, name: str) -> float:
        """The value of a setting that is a number of seconds, or its default."""
        return float(self._value(name))

    def of(self, prefix: str) -> Settings:
        """Those whose keys begin with ``prefix``."""
        return Settings({name: value for name, value in self._values.items() if name.startswith(prefix)})

    def without(self, prefix: str) -> Settings:
        """Those whose keys do not begin with ``prefix``."""
        return Settings({name: value for name, value in self._values.items() if not name.startswith(prefix)})

    def scrub(self, text: str) -> str:
        """``text`` without the secrets of these settings, should it contain any."""
        for name, value in self._values.items():
            # A reference to keys has parts of paths.
            if store_option(name).is_secret and not name.startswith(ENCRYPTION):
                # Of a signature or a proxy's address, the parts that are secret by themselves, too.
                for part in (value, *re.split(r"[?&=:@/]+", unquote(value))):
                    if len(part) >= _SHORTEST_SECRET and not _HARMLESS.fullmatch(part):
                        text = text.replace(part, HIDDEN)
        return text

    def _value(self, name: str) -> Any:
        option, text = store_option(name), self._values.get(name)
        return option.default if text is None else parse(STORE, option, text)


NO_SETTINGS = Settings()
"""Everything from the environment."""


def split_settings(options: Mapping[str, V]) -> tuple[dict[str, V], Settings]:
    """The options that are no store's, and those that are. Raises as `Settings`."""
    return without_store_options(options), Settings(only_store_options(options))
