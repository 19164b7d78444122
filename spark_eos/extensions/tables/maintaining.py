"""The publications of a log as a step of its maintenance."""

from __future__ import annotations

from collections.abc import Callable

from spark_eos.errors import EosLogError, ProducerFencedError
from spark_eos.extensions.tables.publisher import Publisher
from spark_eos.extensions.tables.tables import Tables
from spark_eos.log.log import Log
from spark_eos.maintenance.maintain import NOTHING, Step

Tell = Callable[[str], None]


def step(log: Log) -> Step:
    """The step ``publish`` of a log's maintenance."""
    publications = Publications(log)

    def publish(_log: Log, *, dry_run: bool, tell: Tell) -> str:
        if dry_run:
            due = publications.look(tell=tell)
            return f"would publish {', '.join(due)}" if due else NOTHING
        texts = publications.run(tell=tell)
        return f"published {', '.join(texts)}" if texts else NOTHING

    return publish


class Publications:
    """All publications of a log. Keep one for all passes: its publishers remember what they have planned."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._publishers: dict[str, Publisher] = {}

    def run(self, *, tell: Tell) -> list[str]:
        """Publish what is due: the names and entries. An error of one publication is raised after all others.

        A publication that another publisher has taken over is left to that one for this pass.
        """
        return self._each(self._publish, tell)

    def look(self, *, tell: Tell) -> list[str]:
        """The names of what is due."""
        return self._each(lambda name, publisher: name if publisher.is_due() else None, tell)

    def _each(self, work: Callable[[str, Publisher], str | None], tell: Tell) -> list[str]:
        texts, failed = [], None
        names = sorted(self._log.follow().publications)
        for name in names:
            try:
                publisher = self._publishers.get(name) or Tables(self._log).publisher(name, tell=tell)
                text = work(name, publisher)
                self._publishers[name] = publisher
            except ProducerFencedError:
                self._publishers.pop(name, None)
            except EosLogError as error:
                self._publishers.pop(name, None)
                failed = failed or error
            else:
                texts += [] if text is None else [text]
        if failed is not None:
            raise failed
        self._publishers = {name: publisher for name, publisher in self._publishers.items() if name in names}
        return texts

    @staticmethod
    def _publish(_: str, publisher: Publisher) -> str | None:
        result = publisher.publish()
        return f"{result.publication} (entry {result.entry})" if result.is_new else None
