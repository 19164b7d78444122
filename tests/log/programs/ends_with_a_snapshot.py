"""Ends when a thread has begun to store a snapshot."""

import sys

from spark_eos.log.log import Log
from spark_eos.protocol.actions import AlterLog
from verification.retiring import RETIRED_AT_ONCE

log = Log.create(sys.argv[1], snapshot_interval=3, config=RETIRED_AT_ONCE)
log.does_maintenance = False
log.ensure_topic("t", 300)
log.commit(lambda _: (AlterLog(()),))
log.does_maintenance = True
log.maintenance._saved_s = 1.0
log.commit(lambda _: (AlterLog(()),))
