"""Files that an attacker has made, with checksums that fit: an error that names the file, in little memory, or rows.

Each program runs in a process of its own that may map little more than at its start. So a length, a count or a
compressed block that is believed ends it.
"""

from __future__ import annotations

import pytest

from tests.corruption.test_decoders import linux, run_in_little_memory

pytestmark = linux


@pytest.mark.deep("corruption/encrypted_files", "corruption/parquet_files", "corruption/bombs")
@pytest.mark.parametrize(
    "program",
    [
        "corruption/encrypted_files",
        "corruption/snapshots",
        "corruption/index_pages",
        "corruption/parquet_files",
        "corruption/bombs",
        "corruption/avro_values",
    ],
)
def test_what_an_attacker_has_made(program: str) -> None:
    run_in_little_memory(program)
