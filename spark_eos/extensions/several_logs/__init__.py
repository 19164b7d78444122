"""One transaction over several logs (docs/design/0014)."""

from __future__ import annotations

from spark_eos.extending import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(names={"spark_eos.MultiLogProducer": "producer:MultiLogProducer"})
