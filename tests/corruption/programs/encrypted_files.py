"""Headers and chunks that lie about their lengths, behind the first bytes, which say that a file is encrypted."""

import random

from spark_eos.errors import EosLogError
from spark_eos.extensions.encryption.store import EncryptedStore
from spark_eos.storage import MemoryStore
from tests.corruption.hostile import EXAMPLES, HUGE, little


class Keys:
    def key(self, key_id):
        return b"1" * 32 if key_id == "one" else None


def reads(store):
    yield lambda: store.read(NAME)
    yield lambda: store.size(NAME)
    yield lambda: store.read(NAME, 70_000, 10)


NAME, inner = "data/t/a.arrow", MemoryStore()
chance = random.Random(11)
store = EncryptedStore(inner, Keys(), "one")
store.create(NAME, bytes(200_000))
stored = inner.read(NAME).to_pybytes()
for read in reads(store):
    read()
little(100 << 20)
refused = 0
for _ in range(EXAMPLES * 6):
    body = bytearray(stored)
    at = chance.randrange(6, 120 if chance.random() < 0.7 else len(body))
    if chance.random() < 0.5:
        body[at] ^= chance.randrange(1, 256)
    else:
        body[at : at + 1] = chance.choice(HUGE)
    inner.overwrite(NAME, bytes(body[: chance.choice([len(body), len(body), at + 1])]))
    for read in reads(EncryptedStore(inner, Keys(), "one")):
        try:
            read()
        except EosLogError as error:
            refused += 1
            assert NAME in str(error), error
            assert "MemoryError" not in str(error), error
assert refused > EXAMPLES * 6
