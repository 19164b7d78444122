# ruff: noqa: PTH103, PTH102, PTH118, PTH123  (it is about `os` and its paths)
"""What a power cut can leave of a folder."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PowerCut:
    """One state in which a power cut could leave the folder of a `Disk`.

    Attributes
    ----------
    step
        How many calls came before it.
    call
        The last one of them.
    notes
        What was noted by then (`Disk.note`).
    folders, files
        The names of the folders, and the bytes of the files, that are left.
    """

    step: int
    call: str
    notes: tuple[Hashable, ...]
    folders: tuple[str, ...] = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write the state into a folder.

        Parameters
        ----------
        folder
            An empty folder; it is made if it is missing.
        """
        os.makedirs(folder, exist_ok=True)
        for name in self.folders:
            os.mkdir(os.path.join(folder, name))
        for name, data in self.files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
