"""System calls of the store in a folder that are hints, and ask for nothing that it relies on."""

from __future__ import annotations

from spark_eos.storage.posix import files


def test_the_disk_begins_with_the_bytes_of_a_large_file_early(tmp_path, monkeypatch):
    begun = []
    monkeypatch.setattr(files, "WRITEBACK_BYTES", 10)
    monkeypatch.setattr(files, "begin_writeback", lambda _, offset, length: begun.append((offset, length)))
    with files.TemporaryFile(str(tmp_path)) as file:
        for size in (4, 4, 4, 25, 3):
            file.write(memoryview(bytes(size)))
        assert begun == [(0, 12), (12, 25)]


def test_a_write_of_a_part_goes_on(tmp_path, monkeypatch):
    real = files.os.write
    with files.TemporaryFile(str(tmp_path)) as file:
        monkeypatch.setattr(files.os, "write", lambda descriptor, view: real(descriptor, view[:3]))
        file.write(memoryview(b"ten bytes."))
        assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"ten bytes."]


def test_that_it_cannot_be_asked_to_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "WRITEBACK_BYTES", 1)
    for call in (None, lambda *_: -1):
        monkeypatch.setattr(files, "_SYNC_FILE_RANGE", call)
        with files.TemporaryFile(str(tmp_path)) as file:
            file.write(memoryview(b"some"))
            file.seal()
