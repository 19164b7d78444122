"""Counts and lengths of entries, made huge: an error, and no memory is taken for them."""

import random

from spark_eos.errors import CorruptRecordError, UnsupportedVersionError
from spark_eos.protocol.encoding.entries import decode_entry
from tests.corruption.hostile import EXAMPLES, HEADER, HUGE, entries, little, sealed

ENTRIES = entries()
chance = random.Random(0)
decode_entry(ENTRIES[0][1], 0, "x")
little(150 << 20)
for seq, data in ENTRIES[:: max(1, len(ENTRIES) * 8 // EXAMPLES)]:
    for at in range(HEADER, len(data)):
        try:
            decode_entry(sealed(data[:at] + chance.choice(HUGE) + data[at + 1 :]), seq, "x")
        except (CorruptRecordError, UnsupportedVersionError) as error:
            assert "MemoryError" not in str(error), error
