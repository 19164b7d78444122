"""Maintenance under chaos: how it is set, what it has done, and the last pass, after which all has to be sound."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from spark_eos.clients.consumer.heartbeat import heartbeat_name
from spark_eos.log.log import Log
from spark_eos.maintenance.maintain import NOTHING, Maintainer
from spark_eos.maintenance.verify.verify import Finding, Verdict, verify

__all__ = ["DELETE_DELAY_MS", "INTERVAL", "MIN_AGE_S", "BackgroundMaintenance", "done_by", "last_pass"]

INTERVAL = 50
"""Entries from one snapshot to the next."""

DELETE_DELAY_MS = 20_000
"""How long replaced files stay: longer than most freezes, but not than those of zombies."""

MIN_AGE_S = 120
"""How long a writer has: longer than a micro-batch on a busy machine, and than all freezes but those of zombies."""


@dataclass
class BackgroundMaintenance:
    """Steps of maintenance that had something to do, by name, and steps that failed."""

    done: Counter[str] = field(default_factory=Counter)
    failed: int = 0

    def __str__(self) -> str:
        done = ", ".join(f"{count} {step}" for step, count in sorted(self.done.items()))
        return f"{done or 'nothing'} done, {self.failed} failed"


def done_by(outputs: Iterable[Path]) -> BackgroundMaintenance:
    """What `eoslog maintain --json` has said in these files; a line that a kill has cut off does not count."""
    found = BackgroundMaintenance()
    for path in outputs:
        for line in path.read_text("utf-8", "replace").splitlines():
            if not (line.startswith("{") and line.endswith("}")):
                continue
            told = json.loads(line)
            waits = told["step"] == "vacuum" and "deleted" not in told["text"]
            if told["failed"]:
                found.failed += 1
            elif told["text"] != NOTHING and not waits:
                found.done[told["step"]] += 1
    return found


def last_pass(url: str) -> list[str]:
    """Maintain a log at rest, and verify it: what went wrong, and what is."""
    done = [*Maintainer(Log.open(url), min_age_s=0, heartbeat_name=heartbeat_name).run(wait=False)]
    problems = [f"{one.step} {one.text}" for one in done if one.error is not None]
    findings: list[Finding] = []
    verify(url, findings.append)
    problems += [f"{one.name} {one.text}" for one in findings if one.verdict is Verdict.WRONG]
    return problems
