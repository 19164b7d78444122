"""`eoslog maintain`, as it runs beside all other programs.

Arguments: its notes, and those of the command.
"""

from __future__ import annotations

import sys
from pathlib import Path

from spark_eos.cli.command import main
from verification.chaos.journal import Notes

if __name__ == "__main__":
    told, *arguments = sys.argv[1:]
    Notes(Path(told)).add("ready")
    sys.exit(main(["maintain", *arguments]))
