"""Snapshots that were edited, or have huge numbers."""

import random
from pathlib import Path

from spark_eos.protocol.encoding.snapshots import decode_snapshot
from tests.corruption.hostile import EXAMPLES, clear, little, logs, spoiled

chance = random.Random(3)
snapshots = [
    (int(Path(name).stem), data) for files in logs() for name, data in files.items() if "/snapshots/" in name
]
assert len(snapshots) > 4
for seq, data in snapshots:
    decode_snapshot(data, seq, "x")
little(150 << 20)
for _ in range(EXAMPLES * 6):
    seq, data = chance.choice(snapshots)
    clear(decode_snapshot, spoiled(data, chance), seq)
