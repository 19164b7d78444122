"""Pages of indexes that were edited, or have huge numbers; their names have the CRC."""

import random
from pathlib import Path

from google_crc32c import value as crc32c

from spark_eos.protocol.encoding.index_pages import decode_page
from spark_eos.protocol.index import IndexPage, Measures
from tests.corruption.hostile import EXAMPLES, HEADER, clear, little, logs, spoiled


def page(of, crc):
    return IndexPage(*of, Measures(*[0] * (len(Measures._fields) - 1), crc))


chance = random.Random(4)
pages = []
for files in logs():
    for name, data in files.items():
        if "/index/" in name:
            topic, number, stem = Path(name).parts[-3:]
            level, base, end, crc = Path(stem).stem.split("-")
            of = (topic, int(number)), int(level), int(base), int(end), 1
            pages.append((of, data))
            decode_page(data, page(of, int(crc, 16)), "x")
assert len(pages) > 3
little(150 << 20)
for _ in range(EXAMPLES * 6):
    of, data = chance.choice(pages)
    bad = spoiled(data, chance)
    clear(decode_page, bad, page(of, crc32c(bad[HEADER:])))
