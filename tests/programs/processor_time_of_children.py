"""The processor time of a process has that of children that have ended or run, and of an orphan, not of others."""

import subprocess
import sys
import time

from benchmarks.machine import Others, _seconds_of_others, processor_seconds

before = processor_seconds()
subprocess.run([sys.executable, "-c", "n = 0\nfor n in range(5_000_000): pass"], check=True)
assert processor_seconds() - before > 0.02, "one that has ended"
# It ends by itself, should this process be killed.
busy = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
with subprocess.Popen([sys.executable, "-c", busy]) as process:
    try:
        end = time.monotonic() + 50
        # Without this process itself, which looks again and again.
        others = processor_seconds() - time.process_time()
        while processor_seconds() - time.process_time() - others < 0.1:
            assert time.monotonic() < end, "one that runs"
    finally:
        process.kill()
work = "import time\nwhile time.process_time() < 0.4: pass"
orphan = ["sh", "-c", '"$0" -c "$1" &', sys.executable, work]
before, end = _seconds_of_others(), time.monotonic() + 50
subprocess.run(orphan, check=True)
while _seconds_of_others() - before < 0.2:
    assert time.monotonic() < end, "one of others"
Others()
before, end = processor_seconds() - time.process_time(), time.monotonic() + 50
subprocess.run(orphan, check=True)
while processor_seconds() - time.process_time() - before < 0.2:
    assert time.monotonic() < end, "one whose parent has ended"
