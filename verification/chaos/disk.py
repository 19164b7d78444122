"""A small file system that can be filled and emptied again."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

__all__ = ["SmallDisk"]

SIZE_MB = 192


class SmallDisk:
    """A tmpfs at ``folder``, if this process may mount one; else a plain folder that is never full.

    ``possible`` says which. `remove` has to be called in the end.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.fills = 0
        self._ballast = folder / ".ballast"
        mount = shutil.which("mount")
        command = [mount or "mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "spark-eos-chaos", str(folder)]
        self.possible = (
            mount is not None
            and hasattr(os, "geteuid")
            and os.geteuid() == 0
            and subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603
        )

    @property
    def is_full(self) -> bool:
        """Whether the ballast lies there."""
        return self._ballast.exists()

    def fill(self, leave: int) -> None:
        """Take all space but ``leave`` bytes."""
        self.fills += 1
        with self._ballast.open("wb") as file:
            block = bytes(1 << 16)
            with suppress(OSError):
                while self._free() > leave:
                    # Unbuffered: a write that does not fit must be found out here.
                    os.write(file.fileno(), block[: max(1, min(len(block), self._free() - leave))])

    def free(self) -> None:
        """Give the space back."""
        self._ballast.unlink(missing_ok=True)

    def remove(self) -> None:
        """Unmount."""
        if self.possible:
            umount = shutil.which("umount") or "umount"
            subprocess.run([umount, "-l", str(self.folder)], check=False, capture_output=True)  # noqa: S603
            self.possible = False

    def _free(self) -> int:
        known = os.statvfs(self.folder)
        return known.f_bavail * known.f_frsize
