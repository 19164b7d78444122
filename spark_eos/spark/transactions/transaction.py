"""Several DataFrames in one commit: each is staged when it is written, and all become visible when the context ends."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from spark_eos.errors import ConfigError, EosLogError, IllegalStateError, NotALogError
from spark_eos.log.log import Log
from spark_eos.protocol.types import StagedFile
from spark_eos.spark.host import host
from spark_eos.spark.options import parse_sink
from spark_eos.spark.sink.commit import Topics, delete_rejected_files
from spark_eos.spark.sink.sink_target import options_for, prepare
from spark_eos.spark.sink.task import TaskMessage, collect
from spark_eos.spark.transactions.staging import stage
from spark_eos.spark.version import check_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from typing_extensions import Self


_OF_THE_TRANSACTION = frozenset(
    {
        "allowstateloss",
        "auto.maintenance.enable",
        "checkpointlocation",
        "group.id",
        "path",
        "transactional.id",
        "txnappid",
        "txnversion",
    }
)
_WITHOUT_EFFECT = {
    "processing.guarantee": "a transaction is exactly_once",
    "queryname": "the query has its name from writeStream.queryName",
}


class FrameTransaction(ABC):
    """What `MicroBatchTransaction` and `BatchTransaction` have in common."""

    def __init__(self, path: str, options: Mapping[str, object] | None, *, streaming: bool) -> None:
        check_version()
        self._streaming = streaming
        self._raw_options = {"path": path, **texts(options)}
        for name in self._raw_options:
            plain_name = plain(name)
            if plain_name == "topic":
                raise ConfigError("option topic is one of each frame: give it to write(frame, topic)")
            if plain_name in _WITHOUT_EFFECT:
                raise ConfigError(
                    f"option {name} has no effect here: {_WITHOUT_EFFECT[plain_name]}. Leave it out"
                )
        self._options = parse_sink(self._raw_options, streaming=streaming)
        self._messages: list[TaskMessage] = []
        self._overwritten: list[str] = []
        self._lock = threading.Lock()
        self._is_open = False
        self._is_over = False
        self._running = 0
        """Calls of `write` that have not ended."""
        self._repeats = False

    @property
    def is_repetition(self) -> bool:
        """Whether the log has all of this already, so that nothing is written.

        It is known inside the context. A function of ``foreachBatch`` may use it to leave out what else it does.
        """
        return self._repeats

    def write(
        self,
        frame: DataFrame,
        topic: str | None = None,
        *,
        mode: Literal["append", "overwrite"] = "append",
        options: Mapping[str, object] | None = None,
    ) -> None:
        """Stage the rows of a DataFrame. They become visible when the context ends.

        May be called from several threads at once, which have to be done before the context ends. A topic that is
        missing is created at once, without rows.

        Parameters
        ----------
        frame
            A batch DataFrame, with the columns that the sink takes.
        topic
            Where all rows go. None: the column ``topic`` says it.
        mode
            ``"overwrite"`` replaces what the topic holds.
        options
            Options of the sink for this frame alone, such as ``num.partitions`` or ``compression.type``.

        Raises
        ------
        IllegalStateError
            The call is not inside the context, or the context has ended meanwhile. Then nothing of it was committed,
            and the end of the context raises as well.
        ConfigError, SchemaMismatchError
            An option is wrong, or the topic does not take these columns. Nothing of this frame is staged. An error that
            leaves the with statement ends the transaction; one that is caught inside leaves out this frame alone.
        """
        with self._lock:
            if not self._is_open:
                raise IllegalStateError(
                    "write() is only possible inside the with statement of the transaction"
                )
            self._running += 1
        try:
            self._write(frame, topic, mode, options)
        finally:
            with self._lock:
                self._running -= 1

    def _write(
        self, frame: DataFrame, topic: str | None, mode: str, options: Mapping[str, object] | None
    ) -> None:
        if mode not in {"append", "overwrite"}:
            raise ConfigError(f"mode {mode!r} is not possible: append or overwrite")
        if not hasattr(frame, "isStreaming"):
            raise ConfigError(
                f"a transaction writes DataFrames of Spark, and this is a {type(frame).__name__}: make one of it with "
                "spark.createDataFrame"
            )
        if frame.isStreaming:
            raise ConfigError(
                "a transaction writes batch DataFrames, and this one is a stream: in foreachBatch, write what the "
                "function is given, or frames that are made from it"
            )
        overwrite = mode == "overwrite"
        sink_options = options_for(
            self._of_frame(topic, options), frame.schema, streaming=self._streaming, overwrite=overwrite
        )
        if self._repeats:
            return
        target = prepare(sink_options, frame.schema, overwrite=overwrite)
        overwritten = [sink_options.topic] if overwrite and sink_options.topic is not None else []
        self._check_not_written(overwritten)
        messages = stage(frame, sink_options, target)
        try:
            self._keep(messages, overwritten)
        except EosLogError:
            self._discard(messages)
            raise

    def __enter__(self) -> Self:
        if self._is_open or self._is_over:
            raise IllegalStateError("a transaction is used once: make a new one for each with statement")
        self._repeats = self._begin()
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._is_open, self._is_over = False, True
            running = self._running
        if kind is None and not running:
            self._commit(*collect([*self._messages]))
            return
        self._discard(self._messages)
        if kind is None:
            raise IllegalStateError(
                f"{running} write() of this transaction still run in other threads, and their rows would be missing: "
                "nothing was committed, and what was staged was deleted. Wait for all threads that write before the "
                "with statement ends"
            )

    def _discard(self, messages: list[TaskMessage]) -> None:
        topics, files = collect([*messages])
        if files:
            delete_rejected_files(self._log(), topics, files)

    @abstractmethod
    def _begin(self) -> bool:
        """Whether the log has the transaction already."""

    @abstractmethod
    def _commit(self, topics: Topics, files: tuple[StagedFile, ...]) -> None:
        """Make everything visible."""

    def _log(self) -> Log:
        """The log, created if it is missing and may be."""
        options = self._options
        return host().log(
            options.path,
            options.settings,
            create=options.auto_create_topics_enable,
            maintenance=options.auto_maintenance_enable,
        )

    def _existing(self) -> Log | None:
        try:
            return host().log(
                self._options.path, self._options.settings, maintenance=self._options.auto_maintenance_enable
            )
        except NotALogError:
            return None

    def _of_frame(self, topic: str | None, options: Mapping[str, object] | None) -> dict[str, str]:
        own = texts(options)
        for name in own:
            if plain(name) == "topic":
                raise ConfigError("option topic is an argument here: write(frame, topic)")
            if plain(name) in _OF_THE_TRANSACTION or plain(name) in _WITHOUT_EFFECT:
                raise ConfigError(
                    f"option {name} is one of the whole transaction: give it to {type(self).__name__}, not to write()"
                )
        transaction_options = {
            name: value
            for name, value in self._raw_options.items()
            if plain(name) not in set(map(plain, own))
        }
        topic_option = {} if topic is None else {"topic": topic}
        return {**transaction_options, **own, **topic_option}

    def _keep(self, messages: list[TaskMessage], overwritten: list[str]) -> None:
        with self._lock:
            if not self._is_open:
                raise IllegalStateError(
                    "the with statement of the transaction ended before this write() had: nothing of it is committed, "
                    "and what it staged was deleted. Wait for all threads that write before the with statement ends"
                )
            self._check_not_written(overwritten)  # Another thread may have written to it meanwhile.
            # Not before: a caller may catch the error of a frame that failed, and go on.
            self._messages += messages
            self._overwritten += overwritten

    def _check_not_written(self, overwritten: list[str]) -> None:
        written = {name for message in self._messages for name in message.topics}
        for topic in overwritten:
            if topic in written:
                raise ConfigError(
                    f"topic {topic!r} is overwritten after rows were written to it in the same transaction: they would "
                    "be lost. Overwrite it first, then append"
                )


def texts(options: Mapping[str, object] | None) -> dict[str, str]:
    """Options as Spark hands them over: text, with true and false in lower case."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (options or {}).items()
        if value is not None
    }


def plain(name: str) -> str:
    """The name of an option as it is compared."""
    return name.lower().removeprefix("kafka.")
