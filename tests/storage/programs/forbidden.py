"""What a user who may not does with a store in a folder: says "denied" for each."""

import os
import sys

from spark_eos.errors import StorePermissionError
from spark_eos.storage import PosixStore

root = sys.argv[1]
store = PosixStore(root)
if os.geteuid() == 0:
    os.setuid(65534)  # root may do anything
for change in (
    lambda: store.create("b", b"1"),
    lambda: store.create("new/b", b"1"),
    lambda: store.overwrite("a", b""),
    lambda: store.delete("a"),
    lambda: PosixStore(root + "/new").create("b", b"1"),
    lambda: store.read("secret"),
):
    try:
        change()
    except StorePermissionError as error:
        assert root in str(error)
        print("denied")
assert store.read("a").to_pybytes() == b"1"
