"""What is printed of a copy or a restored log, and what verifying it finds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from spark_eos.cli.progress import Progress
from spark_eos.errors.counting import counted

if TYPE_CHECKING:
    from spark_eos.maintenance.copying import Copied
    from spark_eos.maintenance.verify.verify import Finding


def shown(progress: Progress) -> Callable[[Finding], None]:
    """A function that prints a finding as a line on standard error, with its remedy, beside the progress."""

    def show(finding: Finding) -> None:
        progress.clear()
        remedy = f"; {finding.remedy}" if finding.remedy else ""
        print(f"{finding.verdict.value}: {finding.name}: {finding.text}{remedy}", file=sys.stderr)

    return show


def as_json(copied: Copied, *, quick: bool) -> dict[str, object]:
    """What was copied or restored, for `print_json`."""
    summary = copied.verified
    return {
        "log_id": copied.log_id,
        "last_entry": summary.last_entry,
        "files": summary.files,
        "bytes": summary.bytes,
        "records": summary.records,
        "quick": quick,
    }


def as_text(copied: Copied, noun: str, *, quick: bool) -> str:
    """The same for people; ``noun`` is what it is: the copy."""
    summary = copied.verified
    return (
        f"log {copied.log_id} up to entry {summary.last_entry}: {counted(summary.records, 'record')} in "
        f"{counted(summary.files, 'file')} of {counted(summary.bytes, 'byte')}; {noun} "
        f"{'is there' if quick else 'is verified'}"
    )
