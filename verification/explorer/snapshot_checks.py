"""Snapshots, index pages and retired names, compared with the entries that they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spark_eos.log import paths
from spark_eos.protocol.encoding.index_pages import encode_page
from spark_eos.protocol.encoding.snapshots import encode_snapshot
from spark_eos.protocol.index import IndexPage
from spark_eos.protocol.state import State
from verification.explorer.history import Chain
from verification.explorer.store import Object

__all__ = ["badly_kept"]


def badly_kept(chain: Chain, objects: Mapping[str, Object], total: int) -> tuple[str, ...]:
    """What would mislead, or stop, who opens the log now, or slept and reads on; ``total`` stands for the objects."""
    if chain.problems:
        return ()  # Which say what is wrong.
    known = chain.kept.get(total)
    if known is None:
        known = chain.kept[total] = (
            *_snapshots(chain, objects),
            *_retired(chain, objects),
            *_changed(chain),
        )
    return known


def _snapshots(chain: Chain, objects: Mapping[str, Object]) -> Iterator[str]:
    now = dict(_pages(chain.state))
    for name, found in objects.items():
        seq = paths.snapshot_seq(name)
        if seq is None:
            continue
        then = chain.at(seq)
        if then is None or bytes(found.body) != encode_snapshot(then.state):
            yield f"snapshot {seq} is not the state after entry {seq}"
            continue
        # What was replaced since may be gone: a process that begins here follows the log, and then needs it no more.
        yield from (
            f"snapshot {seq} names {page}, which is not stored as the entries say"
            for page, _ in _pages(then.state)
            if page in now and (page not in objects or bytes(objects[page].body) != now[page])
        )


def _pages(state: State) -> Iterator[tuple[str, bytes]]:
    """Names and contents of all pages that a state needs."""
    waiting = [page for key in sorted(state.partitions) for page in state.partitions[key].index.pages]
    while waiting:
        page = waiting.pop()
        assert page.content is not None, "a chain forgets nothing"
        yield paths.page(page), encode_page(page.content)
        waiting += [part for part in page.content if isinstance(part, IndexPage)]


def _retired(chain: Chain, objects: Mapping[str, Object]) -> Iterator[str]:
    stored = max(
        (paths.snapshot_seq(name) or 0 for name in objects if name.startswith(paths.SNAPSHOTS)), default=0
    )
    for seq in range(chain.state.seq + 1):
        found = objects.get(paths.entry(seq))
        if found is None:
            yield f"entry {seq} is gone: its slot is free again"
        elif not found.body.size and not 0 < seq <= stored:
            yield f"entry {seq} is retired, and no snapshot stands for it: the newest is {stored}"


def _changed(chain: Chain) -> Iterator[str]:
    before = chain.before
    if before is None or before.values is None or chain.values is None:
        return
    had, has = [*before.values.elements()], [*chain.values.elements()]
    if has[: len(had)] != had:
        yield f"entry {chain.state.seq}: what was committed before it is not the same any more: {had}, now {has}"
