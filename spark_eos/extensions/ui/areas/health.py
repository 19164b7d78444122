"""Health: whether the store can be read, the clock, and `eoslog verify` as a background job."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from spark_eos.extensions.ui.areas.troubles import troubles
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.jobs import Job
from spark_eos.extensions.ui.question import Answer, Question
from spark_eos.maintenance.verify.verify import Finding, Verdict, verify

_FINDINGS = 500
"""Findings that are listed; all are counted."""
_ORDER = [verdict.value for verdict in Verdict]


def health(follower: Follower, _: Question) -> Answer:
    """Whether the log can be read now; how far the check is, and what it has found."""
    return {
        **job_of(follower).shown,
        "store": {
            "readable": follower.error is None,
            "clock_problem": next(
                (trouble.text for trouble in troubles(follower) if trouble.name == "clock"), None
            ),
        },
    }


def check_health(follower: Follower, question: Question) -> Answer:
    """Begin a check of the whole log (``quick``: of references alone), or stop the one that runs."""
    job = job_of(follower)
    if question.choice("do", ("start", "stop")) == "stop":
        job.stop()
    else:
        job.start(quick=question.flag("quick"))
    return job.shown


def job_of(follower: Follower) -> Job:
    """The check of this log."""
    job: Job = follower.memory.setdefault("verify", Job(lambda job: _verify(follower, job), follower.now_ms))
    return job


def _verify(follower: Follower, job: Job) -> dict[str, Any]:
    """The store only reads, so nothing is repaired."""
    findings: list[dict[str, Any]] = []

    def found(finding: Finding) -> None:
        # What is wrong comes first, then what could not be read; notes come last.
        if len(findings) < _FINDINGS or finding.verdict is not Verdict.NOTE:
            findings.append({**asdict(finding), "verdict": finding.verdict.value})
            findings.sort(key=lambda row: _ORDER.index(row["verdict"]))
            del findings[_FINDINGS:]
            job.tell(findings=list(findings))

    job.tell(findings=[])
    summary = verify(follower.store, found, quick=bool(job.arguments["quick"]), progress=job.at)
    return {
        **asdict(summary),
        "found": {verdict.value: count for verdict, count in summary.found.items()},
        "sound": summary.is_sound,
    }
