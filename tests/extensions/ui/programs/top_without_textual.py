"""`eoslog top` on a terminal where textual is not installed."""

import sys

sys.modules["textual"] = sys.modules["textual.app"] = None

from spark_eos.cli.command import main  # noqa: E402
from spark_eos.extensions.ui.top import command as top  # noqa: E402

top._is_terminal = lambda: True
sys.exit(main(["top", sys.argv[1]]))
