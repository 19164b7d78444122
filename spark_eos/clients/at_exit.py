"""The end of a process: what clients have to say then."""

from __future__ import annotations

import sys
from contextlib import suppress

__all__ = ["say"]


def say(text: str) -> None:
    """On standard error, if there is one."""
    with suppress(Exception):
        sys.stderr.write(f"spark_eos: {text}\n")
        sys.stderr.flush()
