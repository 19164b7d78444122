"""Both sides of a fork write a file at once, after one that was written before."""

import os
import sys

from spark_eos.storage.posix.store import PosixStore

store, size = PosixStore(sys.argv[1]), int(sys.argv[2])
with store.upload("first", write_behind=True) as file:  # Leaves two pieces.
    file.write(bytes(size))
one, other = os.pipe(), os.pipe()
if os.fork():
    os.read(one[0], 1)
    with store.upload("ours", write_behind=True) as file:
        file.write(b"p" * size)
        os.write(other[1], b"x")
        assert os.wait()[1] == 0
else:
    with store.upload("theirs", write_behind=True) as file:
        file.write(b"c" * size)
        os.write(one[1], b"x")
        os.read(other[0], 1)
