"""The command line with 256 descriptors. Arguments: those of eoslog."""

import resource
import sys

from spark_eos.cli import main

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
sys.exit(main(sys.argv[1:]))
