"""The error of the first record that is sent to a log."""

import sys

from spark_eos import Producer
from spark_eos.errors import ConfigError

try:
    Producer(sys.argv[1]).send("t", b"1")
except ConfigError as error:
    print(error)
