"""Writes its notes, starts a process in another session, and sleeps: both can be struck."""

import subprocess
import sys
import time
from pathlib import Path

child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
with Path(sys.argv[1]).open("a", encoding="utf-8") as notes:
    notes.writelines(f"{what}\n" for what in sys.argv[2:])
time.sleep(600)
