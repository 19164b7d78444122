"""Breaks of the store in a folder."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_POSIX, _POSIX_FILES = "spark_eos/storage/posix/store.py", "spark_eos/storage/posix/files.py"
_PIECES = "spark_eos/storage/posix/direct_io.py"

_OF_DURABILITY = ("tests/storage/test_durability.py",)
_OF_POSIX = ("tests/storage/test_posix.py", "tests/storage/test_posix_errors.py")
_OF_PIECES = ("tests/storage/test_direct_io.py", "tests/storage/test_write_behind.py")

MUTANTS = (
    Mutant(
        "a-name-for-each-retirement",
        _POSIX,
        "twin = os.path.join(self._temp_folder, _ONE_MORE)",
        'twin = os.path.join(self._temp_folder, f"{time.time_ns()}-twin")',
        "of the processes that write to a folder, all but one leave a name for each retired entry",
        _OF_POSIX,
    ),
    Mutant(
        "data-not-synced",
        _POSIX_FILES,
        "        sync(self._descriptor)\n",
        "",
        "after a power cut an object is there and empty",
        _OF_POSIX,
    ),
    Mutant(
        "link-not-synced",
        _POSIX,
        "                sync(folder)\n            except OSError as error:\n"
        "                self._folders.doubt(path)\n",
        "                pass\n            except OSError as error:\n                self._folders.doubt(path)\n",
        "after a power cut an object is gone whose create had returned",
        _OF_POSIX,
    ),
    Mutant(
        "what-was-met-not-synced",
        _POSIX,
        "        try:\n            sync(folder)\n        except OSError as error:\n"
        "            self._folders.doubt(path)\n",
        "        try:\n            pass\n        except OSError as error:\n            self._folders.doubt(path)\n",
        "a slot counts as taken by what a power cut can still take away",
        (*_OF_DURABILITY, "-k", "meets or refusal_that"),
    ),
    Mutant(
        "read-in-doubt",
        _POSIX,
        '        self._folders.settle_doubt(path)\n        with translated("read", path',
        '        with translated("read", path',
        "an object is read, and built on, whose sync had failed",
        (*_OF_DURABILITY, "-k", "before_it_is_read"),
    ),
    Mutant(
        "parent-not-synced",
        "spark_eos/storage/posix/folders.py",
        "                sync_folder(parent)",
        "                pass",
        "after a power cut a new folder is gone with all that is in it",
        _OF_POSIX,
    ),
    Mutant(
        "removed-tree-half-known",
        "spark_eos/storage/posix/folders.py",
        "                    self.forget()\n                    self.make_durable(parent)\n"
        "                    os.mkdir(folder)\n",
        "                    raise\n",
        "the first write to a log that was deleted and made again fails",
        _OF_POSIX,
    ),
    Mutant(
        "link-before-sync",
        _POSIX,
        '        with translated("sync", path):\n            temp.seal()\n'
        "        # The folder is opened before the link, so that after it nothing is left to fail but one sync.\n"
        "        with self._folders.folder_of(path) as folder:\n            self._link(temp, path, folder)\n",
        "        with self._folders.folder_of(path) as folder:\n            self._link(temp, path, folder)\n"
        '            with translated("sync", path):\n                temp.seal()\n',
        "an object is seen before its bytes are durable",
        _OF_POSIX,
    ),
    Mutant(
        "rename-instead-of-link",
        _POSIX,
        "            os.link(temp.path, os.path.basename(path), dst_dir_fd=folder)",
        "            os.rename(temp.path, os.path.basename(path), dst_dir_fd=folder)",
        "a create replaces what is there",
        _OF_POSIX,
    ),
    Mutant(
        "link-count-not-asked",
        _POSIX,
        "            if link_count(temp.path) == 2:",
        "            if link_count(temp.path) > 2:",
        "a link that was made, and whose reply was bad, counts as another's",
        _OF_POSIX,
    ),
    Mutant(
        "failed-sync-is-no",
        _POSIX,
        '                raise outcome_unknown(error, "create", path) from error',
        '                raise store_error(error, "create", path) from error',
        "a create whose last sync failed is said not to have happened, though it may have",
        _OF_POSIX,
    ),
    Mutant(
        "link-in-doubt-not-withdrawn",
        _POSIX,
        "            os.unlink(temp.path)\n            is_taken",
        "            is_taken",
        "a link in doubt lands after it was told as not made",
        _OF_POSIX,
    ),
    Mutant(
        "short-write",
        _POSIX_FILES,
        "            view = view[written:]",
        "            view = view[view.nbytes :]",
        "what the system did not take at once is lost",
        _OF_POSIX,
    ),
    Mutant(
        "short-read",
        _POSIX_FILES,
        "        total += count\n",
        "        total = length\n",
        "what the system did not give at once is garbage",
        _OF_POSIX,
    ),
    Mutant(
        "a-descriptor-of-two",
        _POSIX_FILES,
        "return Appender(os.dup(self._descriptor))",
        "return Appender(self._descriptor)",
        "bytes of an upload that was given up get into another file",
        _OF_PIECES,
    ),
    Mutant(
        "filled-while-it-is-written",
        _PIECES,
        "        return free\n",
        "        return page\n",
        "what a client adds lies over what is on its way to the disk",
        _OF_PIECES,
    ),
    Mutant(
        "last-piece-not-asked-for",
        _PIECES,
        "            spare = self._behind.wait()\n",
        "            spare = _take_page()\n",
        "a file is committed whose last page the disk did not take",
        _OF_PIECES,
    ),
    Mutant(
        "errors-of-the-thread",
        _PIECES,
        "self._written.put(error)",
        "self._written.put(piece)",
        "a file is committed that has a hole where the disk was full",
        _OF_PIECES,
    ),
    Mutant(
        "a-piece-for-two",
        _PIECES,
        "return _spare.pop()",
        "return _spare[0]",
        "two files under way at once have each other's rows",
        _OF_PIECES,
    ),
    Mutant(
        "a-piece-of-the-parent",
        _PIECES,
        "os.register_at_fork(after_in_child=_spare.clear)\n",
        "",
        "a forked process writes its rows into the files of its parent",
        _OF_PIECES,
    ),
)
