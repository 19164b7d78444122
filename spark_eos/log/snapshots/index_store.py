"""Sealed pages of indexes in the store: written once, read when a plan needs them, a few kept in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from spark_eos.log import paths
from spark_eos.log.snapshots.derived import create_idempotent
from spark_eos.protocol.encoding.index_pages import decode_page, encode_page
from spark_eos.protocol.index import IndexPage, PageContent
from spark_eos.storage import Store

CACHED_ROWS = 64 * 1024
"""Rows, or references to pages, that one process keeps of what it has read: some 20 MB."""


class IndexPageStore:
    """The pages of one log. Safe to share between threads."""

    def __init__(self, store: Store, cached_rows: int = CACHED_ROWS) -> None:
        self._store = store
        self._limit = cached_rows
        self._lock = threading.Lock()
        self._cache: OrderedDict[IndexPage, PageContent] = OrderedDict()
        self._cached = 0

    def load(self, page: IndexPage) -> PageContent:
        """The content of a page. Raises `ObjectNotFoundError`, `CorruptRecordError`, and what the store raises."""
        held = page.content
        if held is not None:
            return held
        with self._lock:
            content = self._cache.get(page)
            if content is not None:
                self._cache.move_to_end(page)
                return content
        name = paths.page(page)
        content = decode_page(self._store.read(name), page, f"{self._store.url}/{name}")
        self._remember(page, content)
        return content

    def _remember(self, page: IndexPage, content: PageContent) -> None:
        with self._lock:
            if page not in self._cache:
                self._cache[page] = content
                self._cached += len(content)
            while self._cached > self._limit and len(self._cache) > 1:
                _, dropped = self._cache.popitem(last=False)
                self._cached -= len(dropped)

    def save(self, pages: Iterable[IndexPage]) -> int:
        """Store those that are only in memory, and what they hold; how many there were.

        They keep their content: `forget` it once something durable refers to them.
        """
        saved = 0
        for page in pages:
            content = page.content
            if content is None:
                continue
            saved += self.save(part for part in content if isinstance(part, IndexPage))
            create_idempotent(self._store, paths.page(page), encode_page(content))
            saved += 1
        return saved


def forget(pages: Iterable[IndexPage]) -> None:
    """Drop the content of pages that are in the store."""
    for page in pages:
        content = page.forget()
        if content is not None:
            forget(part for part in content if isinstance(part, IndexPage))
