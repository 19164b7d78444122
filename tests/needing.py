"""Tests in the kernel's folders that need an extension: where its folder is deleted they are skipped."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

__all__ = ["needs"]


def needs(*extensions: str) -> pytest.MarkDecorator:
    """Mark a test that cannot run without these folders of `spark_eos.extensions`."""
    missing = [name for name in extensions if find_spec(f"spark_eos.extensions.{name}") is None]
    return pytest.mark.skipif(bool(missing), reason=f"without the extension {', '.join(missing)}")
