"""A PostgreSQL of Debian's for the tests: a folder of its own, and a socket in it; no port is opened."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path


def programs():
    """The folder of initdb and pg_ctl; None where PostgreSQL is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    beside = shutil.which("initdb")
    return found[-1].parent if found else Path(beside).parent if beside else None


def missing():
    """Why there is no PostgreSQL to test with; "": there is."""
    if programs() is None:
        return "PostgreSQL is not installed: apt-get install postgresql"
    if os.getuid() == 0 and not any(one.pw_name == "postgres" for one in pwd.getpwall()):
        return "PostgreSQL does not run as root, and there is no user postgres"
    return ""


@contextmanager
def server():
    """Start one, and stop it at the end: what to connect to."""
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    user = "postgres" if os.getuid() == 0 else None
    data = folder / "data"

    def run(name, *arguments):
        done = subprocess.run(
            [programs() / name, "-D", data, *arguments],
            user=user,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    if user is not None:
        shutil.chown(folder, user)
    try:
        run("initdb", "-A", "trust", "-U", "postgres", "--no-sync")
        run("pg_ctl", "-w", "-l", folder / "log", "-o", f"-F -c listen_addresses='' -k {folder}", "start")
        try:
            yield f"host={folder} user=postgres dbname=postgres"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
