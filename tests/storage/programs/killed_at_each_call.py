"""One child after another creates an object, and dies at one more of its system calls.

Each has a folder of its own, which is said with its status; the last one lives to its end.
"""

import os
import signal
import sys

from spark_eos.storage import PosixStore

DATA = b"x" * 100_000
CALLS = ("open", "write", "fsync", "link", "unlink", "close", "mkdir")


def child(root, point):
    """Die at the call of that number; writes are short, so that some kill is in the middle of one."""
    calls = 0
    real = {name: getattr(os, name) for name in CALLS}

    def wrap(name):
        def call(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == point:
                os.kill(os.getpid(), signal.SIGKILL)
            if name == "write":
                args = (args[0], args[1][:30_000])
            return real[name](*args, **kwargs)

        return call

    for name in CALLS:
        setattr(os, name, wrap(name))
    PosixStore(root).create("folder/object", DATA)
    os._exit(0)


point, status = 0, None
while status != 0:
    point += 1
    root = f"{sys.argv[1]}/{point}"
    pid = os.fork()
    if pid == 0:
        child(root, point)
    status = os.waitpid(pid, 0)[1]
    assert status in {0, signal.SIGKILL}, status
    print(root, status)
