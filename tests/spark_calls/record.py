"""Record life cycles with the Spark that is installed, and compare with the recordings that are kept, or keep them.

PYTHONPATH=. python -m tests.spark_calls.record [--keep] [--to FOLDER] [cycle ...]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.spark_calls.cycles import CYCLES, cycles_of
from tests.spark_calls.driver import live, session
from tests.spark_calls.recorder import feed
from tests.spark_calls.recording import FOLDER, difference, keep, kept, normal

ROOT = Path(__file__).parents[2]


def record(name, spark):
    """The lines of one life cycle. ``spark()`` gives the session for lives that share one."""
    with tempfile.TemporaryDirectory() as folder:
        for part in CYCLES[name]:
            if isinstance(part, tuple):
                feed(folder, *part)
            elif part.get("own"):
                _in_own_process(folder, part)
            else:
                live(spark(), folder, part)
        return normal(Path(folder, "notes").read_text())


def _in_own_process(folder, life):
    killed = any(trap["do"] == "kill" for trap in life.get("traps", ()))
    connect = {"SPARK_CONNECT_MODE_ENABLED": "1"} if life.get("connect") else {}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.spark_calls.driver", folder, json.dumps(life)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **connect},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert killed or ended.returncode == 0, ended.stderr[-3000:]
    assert not [*Path(folder).glob("trap-*")], f"the driver was not killed: {ended.stderr[-3000:]}"


def main():
    """Returns whether a recording differs."""
    import pyspark

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cycles", nargs="*", metavar="cycle", help=f"of {', '.join(CYCLES)}; none: all")
    parser.add_argument("--keep", action="store_true", help="keep what is recorded in place of what is there")
    parser.add_argument("--to", default=FOLDER, help="the folder of the recordings")
    args = parser.parse_args()
    sessions = []

    def spark():
        if not sessions:
            sessions.append(session())
        return sessions[0]

    differ = False
    minor = ".".join(pyspark.__version__.split(".")[:2])
    then = kept(minor, args.to)
    for name in args.cycles or cycles_of(minor):
        lines = record(name, spark)
        if args.keep:
            keep(name, pyspark.__version__, lines, args.to)
            print(f"{name}: {len(lines)} lines kept", flush=True)  # noqa: T201
            continue
        head, old = then[name]
        found = difference(old, lines)
        differ = differ or found is not None
        print(f"{name}: {found or 'as recorded with Spark ' + ', '.join(head['spark'])}", flush=True)  # noqa: T201
    return differ


if __name__ == "__main__":
    sys.exit(main())
