"""A command that looks, by a user who may not write: `COMMAND LOG ...`, first with all rights and then without them."""

import os
import sys
from pathlib import Path

from spark_eos.cli.command import main

assert main(sys.argv[1:]) == 0  # All is imported, where other users may not read it.
if os.geteuid() == 0:
    os.setuid(65534)  # root may write everywhere
try:
    Path(sys.argv[2], "new").touch()
except PermissionError:
    print("=== read-only ===")
sys.exit(main(sys.argv[1:]))
