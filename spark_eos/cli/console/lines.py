"""Lines of standard input or a file, in blocks: as they come from a person, in large pieces from a pipe."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator

from spark_eos.errors import ConfigError, InvalidRecordError

BLOCK_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 30


def blocks(descriptor: int, before_waiting: Callable[[], None]) -> Iterator[list[bytes]]:
    r"""The lines, without their ``\n``. ``before_waiting`` is called when the input has no more at the moment.

    A last line without an end is a line. Raises `InvalidRecordError` for a line that no record can hold, and
    `ConfigError` for an input that cannot be read.
    """
    fragments: list[bytes] = []
    length = count = 0
    while True:
        if not _is_ready(descriptor):
            before_waiting()
        try:
            data = os.read(descriptor, BLOCK_BYTES)
        except OSError as error:  # Such as a folder, or the terminal of another process.
            raise ConfigError(f"the input cannot be read: {error.strerror}") from error
        if not data:
            break
        head, newline, tail = data.rpartition(b"\n")
        if newline:
            lines = b"".join([*fragments, head]).split(b"\n")
            fragments, length = [tail], len(tail)
            count += len(lines)
            yield lines
        else:
            fragments.append(data)
            length += len(data)
            if length > _MAX_LINE_BYTES:
                raise InvalidRecordError(f"line {count + 1} has more than {_MAX_LINE_BYTES} bytes")
    last = b"".join(fragments)
    if last:
        yield [last]


def _is_ready(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])
