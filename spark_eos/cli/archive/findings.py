"""What verifying a copy or a restored log finds, on standard error beside the progress."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from spark_eos.cli.progress import Progress

if TYPE_CHECKING:
    from spark_eos.maintenance.verify.verify import Finding


def shown(progress: Progress) -> Callable[[Finding], None]:
    """A function that prints a finding as a line, with its remedy."""

    def show(finding: Finding) -> None:
        progress.clear()
        remedy = f"; {finding.remedy}" if finding.remedy else ""
        print(f"{finding.verdict.value}: {finding.name}: {finding.text}{remedy}", file=sys.stderr)

    return show
