"""Python without its global lock (GIL): refused, since two packages that every log needs do not say that they can."""

from __future__ import annotations

import os
import sys

from spark_eos.errors import ConfigError

UNTRIED = "SPARK_EOS_UNTRIED_FREE_THREADING"
"""Set to ``true`` in the environment, it lets a Python without the lock through."""


def has_gil() -> bool:
    """Whether this process has the lock, once all is loaded that a log needs.

    A free-threaded Python starts without it, and takes it when the first package is loaded that needs it.
    """
    is_enabled = getattr(sys, "_is_gil_enabled", None)  # Since Python 3.13.
    if is_enabled is None or is_enabled():
        return True
    import fastavro  # noqa: F401
    import immutables  # noqa: F401

    return bool(is_enabled())


def check_gil(held: bool) -> None:
    """Raise `ConfigError` unless the lock is ``held``, or the environment has `UNTRIED`."""
    if held or os.environ.get(UNTRIED, "").lower() in {"1", "true"}:
        return
    raise ConfigError(
        "this Python runs without its global lock (GIL), with which alone a log was tried: set PYTHON_GIL=1 in the "
        f"environment, or use the usual build of Python; {UNTRIED}=true tries it without"
    )
