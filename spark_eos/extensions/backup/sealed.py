"""What sealed index pages name. A page of which an earlier backup says it is not read again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from spark_eos.extensions.backup.manifest import StoredFile
from spark_eos.log import paths
from spark_eos.protocol.index import IndexPage, IndexRow, Load


class Sealed:
    """The pages of one log.

    ``inside`` is what was found: of a page of the lowest level the files that it names, of others their pages.
    """

    def __init__(
        self, load: Load, stored_files: Mapping[str, StoredFile], earlier: Mapping[str, tuple[str, ...]]
    ) -> None:
        """``earlier`` is ``inside`` of an earlier backup, ``stored_files`` what the repository has of its files."""
        self.inside: dict[str, tuple[str, ...]] = {}
        self._load = load
        self._stored_files = stored_files
        self._earlier = earlier

    def names(self, pages: Iterable[IndexPage]) -> Iterator[str]:
        """Names of these pages, and of those inside of them."""
        for page in pages:
            name = paths.page(page)
            yield name
            if not page.level:
                continue
            if self._files(name) is not None:
                yield from self._below(name)
            else:
                yield from self.names(self._pages(page))

    def rows(
        self, pages: Iterable[IndexPage], start: int, end: int | None = None
    ) -> Iterator[IndexRow | StoredFile]:
        """The rows of these offsets. Of a page that an earlier backup has with all its files: the files instead."""
        for page in pages:
            if page.next_offset <= start or (end is not None and page.base_offset >= end):
                continue
            if page.base_offset >= start and (end is None or page.next_offset <= end) and not page.is_held:
                files = self._files(paths.page(page))
                if files is not None:
                    yield from files
                    continue
            if page.level:
                yield from self.rows(self._pages(page), start, end)
                continue
            rows = [row for row in self._load(page) if isinstance(row, IndexRow)]
            names = (row.file.name for row in rows if row.file is not None)
            self.inside[paths.page(page)] = tuple(dict.fromkeys(names))
            for row in rows:
                if row.next_offset > start and (end is None or row.base_offset < end):
                    yield row

    def _pages(self, page: IndexPage) -> list[IndexPage]:
        pages = [inner for inner in self._load(page) if isinstance(inner, IndexPage)]
        self.inside[paths.page(page)] = tuple(map(paths.page, pages))
        return pages

    def _files(self, name: str) -> list[StoredFile] | None:
        """All files that a page and those in it name; None if one of them is not known."""
        inside = self._earlier.get(name)
        if inside is None:
            return None
        files: list[StoredFile] = []
        for inner in inside:
            if inner.startswith(paths.INDEX):
                below = self._files(inner)
            else:
                below = [self._stored_files[inner]] if inner in self._stored_files else None
            if below is None:
                return None
            files += below
        self.inside[name] = inside
        return files

    def _below(self, name: str) -> Iterator[str]:
        for inner in self.inside.get(name, ()):
            if inner.startswith(paths.INDEX):
                yield inner
                yield from self._below(inner)
