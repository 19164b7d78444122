"""The README's examples run as they stand. In a process of a user's own: tests/pages."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_examples_run(spark, tmp_path, capsys):  # noqa: ARG001 - the session that the examples get
    examples = re.findall(r"^```python\n(.*?)^```", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert len(examples) == 2
    code = "\n".join(examples)
    assert "/tmp/first-log" in code
    exec(code.replace("/tmp/first-", f"{tmp_path}/first-"), {})
    squares, records = capsys.readouterr().out.strip().splitlines()[-2:]
    assert squares == "1000"
    assert "value=b'one'" in records
    assert records.count("ConsumerRecord(") == 1
