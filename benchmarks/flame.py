"""Flame graphs of what one task of the sink and of the source does: ``python -m benchmarks.flame [FOLDER]``.

The tasks run in this process, as Spark calls them, but without Spark; a thread looks every millisecond where they are.
Writes an SVG for each to ``benchmarks/journal/speed``. Wide is long; what is called stands above who calls it.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from types import FrameType

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from benchmarks.rows import table
from spark_eos.log.log import Log
from spark_eos.spark.datasource import EosLogDataSource

ROWS = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])
BATCH_ROWS = 10_000
"""As Spark hands them over."""

INTERVAL_S = 0.001
WIDTH, LINE = 1200, 18

Stack = tuple[str, ...]


def main() -> None:
    """Both tasks; says how much of the time each system call and each library took."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "benchmarks/journal/speed")
    folder.mkdir(parents=True, exist_ok=True)
    # Not in /tmp, which may be memory: the disk is half of the story.
    with tempfile.TemporaryDirectory(dir=".") as place:
        for size, rows, partitions in ((100, 1_000_000, 1), (100, 1_000_000, 64), (1000, 250_000, 1)):
            url = str(Path(place) / f"{size}-{partitions}")
            Log.create(url).ensure_topic("t", partitions)
            batches = table(rows, size, keyed=True).to_batches(max_chunksize=BATCH_ROWS)
            for what, work in (("sink", _sink(url, batches)), ("source", _source(url))):
                stacks = sampled(work)
                name = f"{what}-{size}-bytes-{partitions}-partitions"
                (folder / f"{name}.svg").write_text(svg(name.replace("-", " "), stacks), encoding="utf-8")
                print(name)
                leaves = Counter[str]()
                for stack, count in stacks.items():
                    leaves[stack[-1]] += count
                for leaf, count in leaves.most_common(8):
                    print(f"  {count / stacks.total():5.0%} {leaf}")


def _sink(url: str, batches: list[pa.RecordBatch]) -> Callable[[], None]:
    def work() -> None:
        writer = EosLogDataSource({"path": url, "topic": "t"}).writer(ROWS, overwrite=False)
        writer.commit([writer.write(iter(batches))])

    return work


def _source(url: str) -> Callable[[], None]:
    def work() -> None:
        source = EosLogDataSource({"path": url, "subscribe": "t"})
        reader = source.reader(source.schema())
        # Spark's worker sends each batch to the virtual machine as Arrow writes it.
        for task in reader.partitions():
            for batch in reader.read(task):
                with pa.ipc.new_stream(pa.MockOutputStream(), batch.schema) as out:
                    out.write_batch(batch)

    return work


def sampled(work: Callable[[], None]) -> Counter[Stack]:
    """How often each stack was seen while ``work`` ran in another thread."""
    found = Counter[Stack]()
    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - how a profiler looks
        if frame is not None:
            found[tuple(_names(frame))[::-1]] += 1
        time.sleep(INTERVAL_S)
    return found


def _names(frame: FrameType | None) -> Iterator[str]:
    while frame is not None and frame.f_code is not threading.Thread.run.__code__:
        code = frame.f_code
        yield f"{Path(code.co_filename).stem}.{code.co_name}:{frame.f_lineno}"
        frame = frame.f_back


def svg(title: str, stacks: Counter[Stack]) -> str:
    """One box for each run of equal callers, on the box of who called."""
    boxes: list[tuple[int, int, int, str]] = []
    _stack_up(sorted(stacks.items()), 0, 0, boxes)
    total, deepest = stacks.total(), max(level for level, *_ in boxes)
    height = (deepest + 3) * LINE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace"'
    parts = [f'{head} font-size="11"><rect width="100%" height="100%" fill="white"/>']
    parts.append(f'<text x="4" y="14">{escape(title)}</text>')
    for level, first, count, name in boxes:
        x, wide = first * WIDTH / total, count * WIDTH / total
        if wide < 1:
            continue
        y = height - (level + 1) * LINE
        shown = escape(name[: int(wide / 7)])
        parts.append(
            f'<g><title>{escape(name)} {count / total:.1%}</title><rect x="{x:.1f}" y="{y}" width="{wide:.1f}" '
            f'height="{LINE - 1}" fill="hsl({sum(name.encode()) % 50},80%,65%)"/>'
            f'<text x="{x + 2:.1f}" y="{y + 13}">{shown}</text></g>'
        )
    return "\n".join([*parts, "</svg>\n"])


def _stack_up(
    stacks: list[tuple[Stack, int]], level: int, first: int, boxes: list[tuple[int, int, int, str]]
) -> None:
    groups: dict[str, list[tuple[Stack, int]]] = {}
    for stack, count in stacks:
        if len(stack) > level:
            groups.setdefault(stack[level], []).append((stack, count))
    for name, group in groups.items():
        count = sum(number for _, number in group)
        boxes.append((level, first, count, name))
        _stack_up(group, level + 1, first, boxes)
        first += count


if __name__ == "__main__":
    main()
