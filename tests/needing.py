"""Tests that need what may be deleted, in folders of tests that stay: where it is deleted they are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

import spark_eos

__all__ = ["is_here", "needs"]

_PACKAGE = Path(spark_eos.__file__).parent


def needs(*names: str) -> pytest.MarkDecorator:
    """Mark a test that cannot run without these extensions."""
    missing = [name for name in names if not is_here(name)]
    return pytest.mark.skipif(bool(missing), reason=f"without the extension {', '.join(missing)}")


def is_here(name: str) -> bool:
    """Whether the folder of this extension is there; ``kafka`` is `spark_eos.kafka`."""
    folder = _PACKAGE / name if name == "kafka" else _PACKAGE / "extensions" / name
    return (folder / "__init__.py").is_file()
