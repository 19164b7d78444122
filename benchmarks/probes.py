"""What a benchmark measures in a process of its own: ``python -m benchmarks.probes PROBE URL``.

Every probe prints what it took, in seconds by the clock and of the processor; the latter is what can be trusted on
a machine that does other things too. Imports are not counted: they are the same for every log.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from spark_eos.config.isolation import Isolation
from spark_eos.log.data.planner import plan
from spark_eos.log.log import Log
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.options import parse_source
from spark_eos.spark.schema import kafka_schema
from spark_eos.spark.source.batch import EosLogBatchReader
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.version import ReadAllAvailable

TOPIC = "t"

Took = tuple[float, float]


def now() -> Took:
    """The clock, and the processor's time of this process."""
    return time.perf_counter(), time.process_time()


def since(began: Took) -> Took:
    """Seconds since ``began``, on both."""
    clock, processor = now()
    return clock - began[0], processor - began[1]


def cold_open(url: str) -> Took:
    """Seconds to open the log."""
    began = now()
    Log.open(url)
    return since(began)


def latest_offset(url: str) -> Took:
    """Seconds until a new streaming source knows where the log ends."""
    began = now()
    options = {"path": url, "subscribe": TOPIC, "startingOffsets": "latest"}
    source = EosLogStreamReader(parse_source(options, streaming=True), kafka_schema())
    source.latestOffset(source.initialOffset(), ReadAllAvailable())
    return since(began)


def last_batch(url: str, rows: str) -> Took:
    """Seconds for a new batch read of the last ``rows`` offsets."""
    log = Log.open(url)
    end = log.state.partitions[log.topic(TOPIC).topic_id, 0].end
    starts = json.dumps({TOPIC: {"0": end - int(rows)}})
    began = now()
    options = {"path": url, "subscribe": TOPIC, "startingOffsets": starts}
    source = EosLogBatchReader(parse_source(options, streaming=False), kafka_schema())
    found = sum(batch.num_rows for task in source.partitions() for batch in source.read(task))
    took = since(began)
    assert found, "the last transaction has rows"
    return took


def scan(url: str) -> Took:
    """Seconds to read every record of the topic; the log is open, and nothing has been read."""
    log = Log.open(url)
    topic = log.topic(TOPIC)
    end = log.state.partitions[topic.topic_id, 0].end
    began = now()
    at = TopicPartition(TOPIC, 0)
    for fetch in plan(log.state, at, 0, end, Isolation.READ_COMMITTED, log.load):
        log.read(topic, fetch)
    return since(began)


def follow(url: str, until: str) -> Took:
    """Follow the log as a reader does, and print entry and resident memory (kB), until entry ``until``."""
    log = Log.open(url)
    shown = 0.0
    while log.follow().seq < int(until):
        if time.monotonic() - shown >= 1:
            shown = time.monotonic()
            print(log.state.seq, _resident_kb(), flush=True)
        time.sleep(0.05)
    print(log.state.seq, _resident_kb(), flush=True)
    return 0.0, 0.0


def _resident_kb() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError("/proc/self/status has no VmRSS: resident memory is measured on Linux only")


PROBES = {probe.__name__: probe for probe in (cold_open, latest_offset, last_batch, scan, follow)}

if __name__ == "__main__":
    print(*PROBES[sys.argv[1]](*sys.argv[2:]))
