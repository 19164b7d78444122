"""The guide's tests of a user's own job run as they are printed, and fail where the job is wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/guide/testing.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"`(\w+\.py)`:\n```python\n(.*?)```", PAGE, re.DOTALL))


def run(folder: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_tests_of_the_guide_pass(tmp_path):
    done = run(tmp_path, FILES)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


@pytest.mark.deep
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('        producer.send_offsets_to_transaction({at: record.offset + 1}, "copy")\n', ""),
        ("    for record in repeat(consumer.poll):", "    for record in repeat(consumer.poll)[1:]:"),
    ],
)
def test_a_job_that_is_wrong_fails(tmp_path, old, new):
    assert old in FILES["copy_job.py"]
    wrong = {**FILES, "copy_job.py": FILES["copy_job.py"].replace(old, new)}
    done = run(tmp_path, wrong)
    assert done.returncode == 1, done.stdout
    assert "CrashPointsError" in done.stdout or "AssertionError" in done.stdout
