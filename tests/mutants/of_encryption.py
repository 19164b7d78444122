"""Breaks of encrypted data files."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_FILE, _STORE = "spark_eos/extensions/encryption/file.py", "spark_eos/extensions/encryption/store.py"
_MARK, _HANDLE = "spark_eos/protocol/actions/encryption.py", "spark_eos/log/encryption.py"
_OF_MARK, _OF_HANDLE = (
    ("tests/protocol/test_mark_encrypted.py",),
    ("tests/extensions/encryption/test_logs.py",),
)
_AREA = ("tests/extensions/encryption/test_files.py",)

MUTANTS = (
    Mutant(
        "last-chunk-not-told",
        _FILE,
        'big") + (b"\\1" if is_last else b"\\0")',
        'big") + b"\\0"',
        "a file that was cut off between two chunks is read as if it were whole",
        _AREA,
    ),
    Mutant(
        "chunks-without-a-place",
        _FILE,
        "return number.to_bytes(_NONCE - 1",
        "return (0).to_bytes(_NONCE - 1",
        "chunks of a file can be exchanged, and a nonce is used twice",
        _AREA,
    ),
    Mutant(
        "header-without-a-name",
        _FILE,
        "return bytes(header[:_KEY_AT]) + name.encode()",
        "return bytes(header[:_KEY_AT])",
        "the header of another file is taken",
        _AREA,
    ),
    Mutant(
        "same-data-key",
        _FILE,
        "data_key = os.urandom(KEY_BYTES)",
        "data_key = master",
        "chunks of two files have the same key and nonce",
        _AREA,
    ),
    Mutant(
        "key-not-told-apart",
        _FILE,
        "if not hmac.compare_digest(_check_value(master), header[_CHECK_AT:_KEY_AT]):",
        "if False:",
        "a wrong key is reported as a damaged file",
        _AREA,
    ),
    Mutant(
        "segments-not-encrypted",
        "spark_eos/storage/encrypted_files.py",
        'return parts[0] == "data" or',
        'return parts[0] == "data" and',
        "records are stored as they are",
        _AREA,
    ),
    Mutant(
        "old-cipher-kept",
        _STORE,
        "            self._forget(name)\n        cipher = self._cipher(name)",
        "            pass\n        cipher = self._cipher(name)",
        "a file that was put back from a backup cannot be read until the process ends",
        _AREA,
    ),
    Mutant(
        "old-key-counts-as-new",
        "spark_eos/extensions/encryption/rotation.py",
        "return self._keys[name] == self._log.store.encryption_key_id",
        "return self._keys[name] is not None",
        "rotation leaves files of the old key, which is destroyed",
        ("tests/extensions/encryption/test_keys.py",),
    ),
    Mutant(
        "needed-key-given-up",
        "spark_eos/extensions/encryption/in_use.py",
        "(info.name not in needed)",
        "1",
        "a key that the log needs is said to be of no use after vacuum",
        ("tests/extensions/encryption/test_keys.py",),
    ),
    # -- the mark -------------------------------------------------------------------------------------------
    Mutant(
        "second-mark-counts",
        _MARK,
        "    if state.encrypted_at >= 0:\n        return state, None\n",
        "",
        "a writer with keys marks an encrypted log a second time, and files staged since the first mark are refused",
        _OF_MARK,
    ),
    Mutant(
        "any-key-id-is-marked",
        _MARK,
        "    if not KEY_ID.fullmatch(action.key_id):",
        "    if False:",
        "the log holds the id of a key that no setting can name",
        _OF_MARK,
    ),
    Mutant(
        "published-log-is-marked",
        _MARK,
        "    if state.publications:",
        "    if False:",
        "a publication makes plain tables of a log that is said to be encrypted",
        _OF_MARK,
    ),
    Mutant(
        "marked-log-is-published",
        _MARK,
        "    if state.encrypted_at >= 0:\n        raise",
        "    if False:\n        raise",
        "records of an encrypted log are written into plain tables",
        _OF_MARK,
    ),
    Mutant(
        "mark-leaves-the-floor",
        _MARK,
        "staging_floor=max(state.staging_floor, entry + 1),",
        "staging_floor=state.staging_floor,",
        "a plain file that was staged before the mark is committed after it",
        _OF_MARK,
    ),
    Mutant(
        "plain-files-are-written",
        _HANDLE,
        "    if state.encrypted_at >= 0 and store.encryption_key_id is None:",
        "    if False:",
        "a process without keys writes plain records into the folder of an encrypted log",
        _OF_HANDLE,
    ),
    Mutant(
        "plain-files-reach-the-rules",
        _HANDLE,
        "            if store.encryption_key_id is None and any(map(_has_files, actions)):",
        "            if False:",
        "the error of a process without keys that has slept names the staging floor, and not the missing keys",
        _OF_HANDLE,
    ),
    Mutant(
        "plain-segments-reach-the-rules",
        _HANDLE,
        "    return isinstance(action, ReplaceSegments) and bool(action.staged)",
        "    return False",
        "a process without keys that has rolled segments commits plain files",
        _OF_HANDLE,
    ),
    Mutant(
        "encrypted-without-a-mark",
        _HANDLE,
        "        elif store.encryption_key_id is not None and any(map(_has_files, actions)):",
        "        elif False:",
        "encrypted files are in a log that processes without keys take for a plain one",
        _OF_HANDLE,
    ),
    Mutant(
        "a-mistyped-key-may-be-destroyed",
        "spark_eos/extensions/encryption/in_use.py",
        'return "yes" if self.is_known else UNKNOWN',
        'return "yes"',
        "a key that is mistyped may be destroyed, it is said, and the other one is",
        ("tests/extensions/encryption/test_keys.py",),
    ),
)
