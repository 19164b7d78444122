"""A batch is said to be longer than its file: an error, and no memory is taken for it."""

import tempfile

from spark_eos.errors import CorruptRecordError
from spark_eos.log.data.layout import Layout
from spark_eos.log.data.reader import read_batch
from spark_eos.protocol.types import BatchRef, FileRef
from spark_eos.storage import PosixStore
from tests.corruption.hostile import little

store = PosixStore(tempfile.mkdtemp())
store.create("f", b"x" * 1000)
little(150 << 20)
for length in (1 << 20, 1 << 31, 1 << 40, 1 << 62):
    try:
        read_batch(store, FileRef("f", 1000, 0), BatchRef(0, 1, 10, length, 0, 0, 0), Layout.kafka())
    except CorruptRecordError as error:
        assert "only 990" in str(error)
    else:
        raise AssertionError
