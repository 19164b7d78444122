"""A short slice of the campaign of publishers; `scripts/publish-chaos` does the same for as long as one likes."""

from __future__ import annotations

import re
import sys

from spark_eos.testing.processes import running


def test_a_slice(tmp_path):
    """Publishers, writers and maintenance are killed four times; every version is compared with the log."""
    command = [sys.executable, "-m", "verification.publishing", "--kills", "4"]
    with running(command, tmp_path / "publishing.out", TMPDIR=str(tmp_path)) as campaign:
        said = campaign.succeed(timeout=1200)
    print(said)  # noqa: T201  (the seed)
    assert re.match(r"seed \d+\n", said)
    assert said.endswith("every version is what the log was\n")
    (count,) = re.findall(r"^ *([\d,]+) versions of events compared$", said, re.MULTILINE)
    assert int(count.replace(",", "")) > 0
