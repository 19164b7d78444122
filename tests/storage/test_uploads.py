"""What an upload hands on at once and what it gathers first."""

from __future__ import annotations

import numpy as np
import pytest

from spark_eos.storage.uploads import BUFFER_BYTES, UploadFile


def test_small_writes_are_gathered_and_large_ones_are_not_copied():
    seen = []
    large = np.zeros(BUFFER_BYTES, np.uint8)
    with UploadFile(seen.append) as file:
        for data in (b"ab", b"c", large, b"d", large, large, b"", b"e"):
            assert file.write(data) == len(data)
        assert file.tell() == 3 * BUFFER_BYTES + 5
        file.finish()
    assert [view.nbytes for view in seen] == [3, BUFFER_BYTES, 1, BUFFER_BYTES, BUFFER_BYTES, 1]
    assert bytes(seen[0]) + bytes(seen[2]) + bytes(seen[5]) == b"abcde"
    assert all(np.shares_memory(np.frombuffer(seen[at], np.uint8), large) for at in (1, 3, 4))


def test_the_values_of_one_of_64_partitions_are_large():
    """Of 32 MB of rows, each has 512 KB: gathered, they would be copied twice."""
    assert BUFFER_BYTES < (32 << 20) // 64


def test_an_upload_of_which_a_write_failed_does_not_end_well():
    """Its writer may have passed over the error: an object with a hole would be there."""

    def full(_):
        raise OSError("full")

    with UploadFile(full) as file:
        for call in (lambda: file.write(bytes(BUFFER_BYTES)), file.finish):
            with pytest.raises(OSError, match="full"):
                call()
