"""Creates 200 objects, each of which another process tries to create as well: says which ones it did."""

import sys

from spark_eos.errors import ObjectExistsError
from spark_eos.storage import PosixStore

root, name = sys.argv[1:]
store = PosixStore(root)
print("ready", flush=True)
sys.stdin.readline()
for i in range(200):
    try:
        store.create(f"log/{i}", name.encode() * 1000)
    except ObjectExistsError:
        pass
    else:
        print(i)
