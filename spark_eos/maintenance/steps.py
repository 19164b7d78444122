"""What one pass of maintenance does, and how long writers have: known without loading what does it."""

from __future__ import annotations

from collections.abc import Iterable

from spark_eos.config.nearest import suggestion
from spark_eos.errors import ConfigError

MIN_AGE_S = 86_400.0
"""How long a writer has from its start to its commit before a vacuum may refuse it.

A day, because a Spark batch that takes longer would be refused, run again, and be refused again.
"""

STEPS = ("snapshot", "retire", "names", "retention", "roll", "compact", "publish", "vacuum", "expire")
"""What a pass does, in this order: what an earlier step lets go is deleted by a later one."""


def check_steps(chosen: Iterable[str]) -> tuple[str, ...]:
    """The steps in their order. Raises `ConfigError` for an unknown one."""
    names = set(chosen)
    for name in sorted(names - {*STEPS}):
        raise ConfigError(f"unknown step {name!r} of maintenance; {suggestion(name, STEPS)}")
    return tuple(name for name in STEPS if name in names)
