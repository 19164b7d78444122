"""What a state refers to: its data files and the sealed pages of its indexes, one after the other.

Nothing is gathered here: a log may have more files than fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_eos.log import paths
from spark_eos.protocol.index import IndexPage, Load
from spark_eos.protocol.state import State

__all__ = ["data_files", "page_names"]


def data_files(state: State, load: Load) -> Iterator[str]:
    """Names of the data files in which a reader of this state may be sent; a name may come several times.

    What lies before the start of its partition is left out, also where its page is still there: no plan contains it.
    """
    for partition in state.partitions.values():
        last = ""
        for row in partition.index.scan(partition.start, load):
            if row.file is not None and row.file.name != last:
                last = row.file.name
                yield last


def page_names(state: State, load: Load) -> Iterator[str]:
    """Names of all sealed pages, those inside of others included."""
    for partition in state.partitions.values():
        yield from _page_names(partition.index.pages, load)


def _page_names(pages: Sequence[IndexPage], load: Load) -> Iterator[str]:
    for page in pages:
        yield paths.page(page)
        if page.level:
            yield from _page_names(load(page), load)  # type: ignore[arg-type]  # pages, from level 1
