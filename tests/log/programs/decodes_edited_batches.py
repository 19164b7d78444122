"""Record batches with wrong bytes and numbers under a checksum that fits: says how many are refused.

Whatever is not refused can be used: it ends no process.
"""

import random
import sys
from contextlib import suppress

from spark_eos.errors import CorruptRecordError
from tests.log.test_hostile_files import body, decoded

chance, refused = random.Random(int(sys.argv[1])), 0
for _ in range(int(sys.argv[2])):
    data = body(chance.choice([None, None, "lz4", "zstd"]))
    for _ in range(chance.choice([1, 1, 2, 8])):
        at = chance.randrange(len(data))
        if chance.random() < 0.5:
            data[at] = chance.randrange(256)
        else:
            data[at : at + 4] = chance.choice([-1, 0, 1 << 30, (1 << 31) - 1]).to_bytes(
                4, "little", signed=True
            )
    try:
        table = decoded(data)
    except CorruptRecordError:
        refused += 1
        continue
    for name in table.column_names:
        for value in table.column(name):
            with suppress(OverflowError, ValueError):  # A time that Python does not have.
                value.as_py()
    table.take([4, 0, 2]).combine_chunks().validate(full=True)
print(refused)
