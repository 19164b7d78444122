"""``python -m spark_eos`` is ``eoslog``."""

from __future__ import annotations

import sys

from spark_eos.cli import main

sys.exit(main())
