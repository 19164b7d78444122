"""What a state refers to: its data files and the sealed pages of its indexes, one after the other.

Nothing is gathered here: a log may have more files than fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from spark_eos.log import paths
from spark_eos.protocol.index import IndexPage, IndexRow, Load
from spark_eos.protocol.publication import Pin
from spark_eos.protocol.state import PartitionKey, State


def data_files(state: State, load: Load) -> Iterator[str]:
    """Names of the data files in which a reader of this state may be sent; a name may come several times.

    What lies before the start of its partition is left out, also where its page is still there: no plan contains it.
    What the versions of a publication have is not.
    """
    for partition in state.partitions.values():
        yield from _files(partition.index.scan(partition.start, load))
    for key, pin in pins(state):
        partition = state.partitions[key]
        # Most of what is pinned was visited right now.
        visited = {id(page) for page in partition.index.pages if page.base_offset >= partition.start}
        pages = tuple(page for page in pin.pages if id(page) not in visited)
        yield from _files(pin._replace(pages=pages).rows(load))


def data_sizes(state: State, load: Load) -> dict[str, int]:
    """The data files in which a reader of the state may be sent, with their sizes: all are held at once."""
    rows = chain(
        *(partition.index.scan(partition.start, load) for partition in state.partitions.values()),
        *(pin.rows(load) for _, pin in pins(state)),
    )
    return {row.file.name: row.file.size for row in rows if row.file is not None}


def pins(state: State) -> Iterator[tuple[PartitionKey, Pin]]:
    """What the versions of publications pin, by partition."""
    for name in sorted(state.publications):
        for version in state.publications[name].versions:
            yield from ((key, pin) for key, pin in sorted(version.pins.items()) if pin.pages)


def _files(rows: Iterable[IndexRow]) -> Iterator[str]:
    last = ""
    for row in rows:
        if row.file is not None and row.file.name != last:
            last = row.file.name
            yield last


def page_names(state: State, load: Load) -> Iterator[str]:
    """Names of all sealed pages, those inside of others included."""
    yield from _page_names(state.sealed_pages(), load)


def _page_names(pages: Iterable[IndexPage], load: Load) -> Iterator[str]:
    for page in pages:
        yield paths.page(page)
        if page.level:
            yield from _page_names(load(page), load)  # type: ignore[arg-type]  # pages, from level 1
