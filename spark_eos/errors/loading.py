"""Packages that an extra brings: loaded where they are used, with the command to type where one cannot be."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import metadata
from types import TracebackType

from spark_eos.errors.request import ConfigError

_OWN = "spark-eos"
_REQUIREMENT = re.compile(r"""([\w.-]+)(?:\[[^]]*\])?\s*([^;\s]*)\s*;.*\bextra\s*==\s*["']([\w-]+)["']""")


class Loading:
    """Imports of packages that an extra brings; a `ConfigError` with the command to type if one cannot be had.

    Nothing but imports belongs into the block, since any exception there becomes the error of a package that fails.

    Parameters
    ----------
    who
        What needs the packages.
    extra
        The extra that brings them.
    packages
        Their names, as pip knows them.
    alone
        The command is for the packages, since the extra has much that this does not need.

    Examples
    --------
    >>> from spark_eos.errors.loading import Loading
    >>> with Loading("eoslog ui", "ui", "starlette", "uvicorn"):
    ...     import uvicorn
    """

    def __init__(self, who: str, extra: str, *packages: str, alone: bool = False) -> None:
        self._who = who
        self._extra = extra
        self._packages = packages
        self._alone = alone

    def __enter__(self) -> None:
        for name in self._packages:
            requirement = _required_versions(self._extra).get(name, "")
            version, least = _version(name), re.search(r">=([\d.]+)", requirement)
            if version is not None and least is not None and _release(version) < _release(least[1]):
                raise ConfigError(
                    f"{self._who} needs {name} {least[1]} or newer, and this is {version}: {self._command()}"
                )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception):
            return
        missing = [name for name in self._packages if _version(name) is None]
        if missing and isinstance(error, ModuleNotFoundError):
            raise ConfigError(
                f"{self._who} needs the package {missing[0]}, which is not installed: {self._command()}"
            ) from error
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ConfigError(
            f"{self._who} needs {', '.join(self._packages)}, and loading fails ({reason}): "
            f"{self._command('--force-reinstall ')}"
        ) from error

    def _command(self, how: str = "") -> str:
        requirements = [f"{name}{_required_versions(self._extra).get(name, '')}" for name in self._packages]
        packages = requirements if self._alone else [f"{_OWN}[{self._extra}]"]
        return f"pip install {how}{' '.join(repr(package) for package in packages)}"


def _required_versions(extra: str) -> dict[str, str]:
    """By the name of a package which versions of it the extra asks for, ``<2,>=1.7``; nothing in a bare folder."""
    return {name: versions for name, versions, of in _requirements() if of == extra}


@lru_cache(maxsize=1)
def _requirements() -> list[tuple[str, str, str]]:
    try:
        requirements = metadata.requires(_OWN) or []
    except metadata.PackageNotFoundError:
        requirements = []
    matches = [_REQUIREMENT.match(text) for text in requirements]
    return [(match[1], match[2], match[3]) for match in matches if match is not None]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version, without zeros at the end: 1.30.0rc1 is 1.30."""
    numbers = re.match(r"[\d.]*", version)
    assert numbers is not None
    return tuple(int(number) for number in re.sub(r"(\.0*)+$", "", numbers[0]).split(".") if number)
