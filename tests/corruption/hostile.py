"""What programs with hostile files share: cruel edits under checksums that fit, and an end of the memory."""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Callable
from pathlib import Path

from google_crc32c import value as crc32c

from spark_eos.errors import CorruptRecordError, UnsupportedVersionError
from tests.corruption.damage import compressed, golden, read_folder
from tests.golden.make import GOLDEN

EXAMPLES = int(os.environ.get("SPARK_EOS_FUZZ_EXAMPLES", "150"))
HEADER = 20
HUGE = [
    *(b"\xfe" * 4 + b"\x0f", b"\xfe" * 9 + b"\x01", b"\x80" * 5 + b"\x01", b"\xff" * 9 + b"\x01"),
    b"\xfe\xff\x7f",
]
"""Numbers as Avro writes them."""


def entries() -> list[tuple[int, bytes]]:
    """Good entries and their numbers."""
    return [
        (int(Path(name).stem), data)
        for files in (golden(), compressed())
        for name, data in files.items()
        if name.startswith("_log/")
    ]


def logs() -> list[dict[str, bytes]]:
    """The golden logs."""
    return [read_folder(path.with_suffix("")) for path in sorted(GOLDEN.glob("v*/*.json"))]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A few cruel edits: bytes set, cut out, put in, copied, numbers made huge."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(found) + 1)
        edit = chance.randrange(5)
        if edit == 0:
            found[at : at + 1] = bytes([chance.randrange(256)])
        elif edit == 1:
            del found[at : at + chance.randint(1, 8)]
        elif edit == 2:
            found[at:at] = chance.randbytes(chance.randint(1, 8))
        elif edit == 3:
            start = chance.randrange(len(found) + 1)
            found[at:at] = found[start : start + chance.randint(1, 40)]
        else:
            width = chance.choice([1, 2, 4, 8, 9])
            found[at : at + width] = chance.choice([b"\xff", b"\x7f", b"\x80", b"\0"]) * width
    return bytes(found)


def sealed(data: bytes) -> bytes:
    """The entry with the CRC of the body it has now."""
    if len(data) < HEADER:
        return data
    return data[: HEADER - 4] + crc32c(data[HEADER:]).to_bytes(4, "big") + data[HEADER:]


def spoiled(data: bytes, chance: random.Random) -> bytes:
    """Edited, or with one huge number in its body; its CRC fits."""
    if chance.random() < 0.5:
        return sealed(mutated(data, chance))
    at = chance.randrange(HEADER, len(data))
    return sealed(data[:at] + chance.choice(HUGE) + data[at + 1 :])


def clear(decode: Callable[..., object], data: bytes, *more: object) -> object:
    """What is in the file. An error names it, and is not that there is no memory."""
    try:
        return decode(data, *more, "the file")
    except (CorruptRecordError, UnsupportedVersionError) as error:
        said = str(error)
    assert "the file" in said, said
    assert "MemoryError" not in said, said
    return None


def little(extra: int) -> None:
    """From now on this process may map so many bytes more than it has mapped."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + extra, mapped + extra))
