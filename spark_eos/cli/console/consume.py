"""``eoslog consume``: records as lines, as with ``kafka-console-consumer``."""

from __future__ import annotations

import sys
import time
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.console.interrupts import Interrupted, Interrupts, interruptible
from spark_eos.cli.console.properties import PrintFormat, client_settings, print_format
from spark_eos.cli.options import ConfigFile, TopicName, Url, at_most_one
from spark_eos.cli.parsing import Command
from spark_eos.cli.progress import Progress
from spark_eos.cli.usage.completion import group_ids
from spark_eos.errors import ConfigError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_eos.cli.console.rendering import OnError, Renderer
    from spark_eos.clients.consumer.consumer import Consumer
    from spark_eos.protocol.state import Topic
    from spark_eos.protocol.types import TopicPartition

app = typer.Typer()

_POLL_RECORDS = 500
"""With --max-messages; else a poll takes what is stored together."""

_PRINT_RECORDS = 10_000
"""Made into text at once."""

_WAIT_MS = 500
"""How long one poll waits: as often a signal or a deadline is looked at where nothing comes."""


class Format(str, Enum):
    """How a record is printed."""

    TEXT = "text"
    JSON = "json"
    AVRO = "avro"
    HEX = "hex"


class Isolation(str, Enum):
    """Which records are read."""

    UNCOMMITTED = "read_uncommitted"
    COMMITTED = "read_committed"


@app.command("consume", cls=Command)
def consume(
    url: Url,
    topic: TopicName,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Begin at the first record (default without --follow).")
    ] = False,
    offset: Annotated[
        str | None,
        typer.Option(
            metavar="OFFSET",
            help="Begin at this offset, at earliest, or at latest; a negative number counts from the end. One out of "
            "range becomes the nearest one in it.",
        ),
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Begin at the first record at or after this time: ISO 8601 (UTC unless it has a zone), or "
            "milliseconds since 1970.",
        ),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option(metavar="N", min=0, help="Only this partition. Repeatable.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="GROUP",
            help="Share the partitions in this group, begin at its offsets, and commit what was printed.",
            autocompletion=group_ids,
        ),
    ] = None,
    max_messages: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="End after so many records.")
    ] = None,
    timeout_ms: Annotated[
        int | None,
        typer.Option(metavar="MS", min=0, help="Wait for records; end when none has come for so long."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for new records until the command is stopped.")
    ] = False,
    isolation_level: Annotated[
        Isolation | None,
        typer.Option(
            metavar="LEVEL",
            help="With read_committed, leave out records of open and aborted transactions (default: read_uncommitted, "
            "as in Kafka).",
        ),
    ] = None,
    format_: Annotated[
        Format | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="How records are printed: text, json (an object for each record, from which produce makes the same "
            "record), avro (values in Avro's JSON) or hex. Default: json for topics with columns, avro where "
            "value.format is Avro, else text.",
        ),
    ] = None,
    key: Annotated[bool, typer.Option("--key", help="Print keys: print.key=true.")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="Print headers: print.headers=true.")] = False,
    timestamp: Annotated[
        bool, typer.Option("--timestamp", help="Print timestamps: print.timestamp=true.")
    ] = False,
    print_property: Annotated[
        list[str] | None,
        typer.Option(
            *("--property", "--formatter-property"),
            metavar="NAME=VALUE...",
            help="With text, avro and hex: print.timestamp, print.key, print.offset, print.partition, print.headers, "
            "print.value, key.separator, line.separator, headers.separator, null.literal, as in Kafka. Repeatable.",
        ),
    ] = None,
    skip_message_on_error: Annotated[
        bool,
        typer.Option(
            "--skip-message-on-error", help="Pass over records that cannot be decoded, and name them."
        ),
    ] = False,
    consumer_property: Annotated[
        list[str] | None,
        typer.Option(
            *("--consumer-property", "--command-property"),
            metavar="NAME=VALUE...",
            help="A setting of the consumer. Repeatable.",
        ),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Print records, one on each line: those that are there now, or also new ones (--follow, --timeout-ms).

    Reading begins at the first record; with --follow, at the end; with --group, at the group's offsets.
    """
    at_most_one({"--from-beginning": from_beginning, "--offset": offset, "--from-time": from_time})
    at_most_one({"--format": format_, "--json": as_json})
    own_settings = client_settings(command_config, consumer_property, "--consumer-property")
    group = _group(group, own_settings)
    at_most_one({"--partition": partition, "--group": group})
    place = _place(offset, from_time, from_beginning=from_beginning, follow=follow)
    if group is not None and not isinstance(place, str):
        raise typer.BadParameter(
            "a group begins at its own offsets; `eoslog groups reset-offsets` moves them",
            param_hint="'--group'",
        )
    switches = {"print.key": key, "print.headers": headers, "print.timestamp": timestamp}
    form = print_format(
        [*(f"{name}=true" for name, is_on in switches.items() if is_on), *(print_property or ())]
    )
    record_format = Format.JSON if as_json else format_
    settings = {
        "client.id": "eoslog",
        "auto.offset.reset": place if isinstance(place, str) else "earliest",
        "isolation.level": Isolation.UNCOMMITTED.value,
        **own_settings,
        **({} if isolation_level is None else {"isolation.level": isolation_level.value}),
        "enable.auto.commit": "false",
        "auto.maintenance.enable": "false",
    }
    if group is not None:
        settings["group.id"] = group
    else:
        settings.pop("enable.auto.commit")
    try:
        with interruptible() as interrupts:
            from spark_eos.clients.consumer.consumer import Consumer

            with Consumer(url, settings) as consumer:
                existing_topic = _known_topic(url, settings, topic)
                renderer = _renderer(
                    existing_topic, record_format, form, _skip if skip_message_on_error else None
                )
                reading = _Reading(consumer, existing_topic, renderer, is_group=group is not None)
                reading.begin(partition, place)
                is_bounded = timeout_ms is None and not follow
                reading.run(interrupts, max_messages, timeout_ms, is_bounded=is_bounded)
    except Interrupted as interrupted:
        raise SystemExit(interrupted.exit_code) from None


def _group(option: str | None, own_settings: dict[str, str]) -> str | None:
    """The group, also if it is named as a setting of the consumer."""
    setting = own_settings.get("group.id")
    if option is not None and setting not in {None, option}:
        raise typer.BadParameter(f"a setting of the consumer is group.id={setting}", param_hint="'--group'")
    return setting if option is None else option


Place = str | int | tuple[int]
"""Where reading begins: earliest or latest, an offset, or (in a tuple) a time."""


def _place(offset: str | None, from_time: str | None, *, from_beginning: bool, follow: bool) -> Place:
    if offset in {"earliest", "latest"}:
        return str(offset)
    if offset is not None:
        try:
            return int(offset)
        except ValueError:
            raise typer.BadParameter(
                f"{offset!r} is not a number, earliest or latest", param_hint="'--offset'"
            ) from None
    if from_time is None:
        return "latest" if follow and not from_beginning else "earliest"
    from spark_eos.log.time_travel import time_ms

    try:
        return (int(from_time) if from_time.isdecimal() else time_ms(from_time),)
    except ValueError:
        raise typer.BadParameter(
            f"{from_time!r} is neither YYYY-MM-DDThh:mm:ss nor milliseconds since 1970",
            param_hint="'--from-time'",
        ) from None


def _known_topic(url: str, settings: dict[str, str], name: str) -> Topic:
    from spark_eos.clients.opening import store_settings
    from spark_eos.log.log import Log

    log = Log.shared(url, store_settings(settings))
    log.follow()
    return log.topic(name)


def _skip(error: Exception) -> None:
    print(f"eoslog: passed over: {error}", file=sys.stderr)


def _renderer(
    topic: Topic, format_option: Format | None, form: PrintFormat, on_error: OnError | None
) -> Renderer:
    from spark_eos.cli.console.rendering import rendered_json, rendered_text
    from spark_eos.log.topics import codec_of

    codec = codec_of(topic)
    is_avro = codec is not None and codec.payload == "avro"
    record_format = format_option or (
        Format.JSON if topic.schemas and form == PrintFormat() else Format.AVRO if is_avro else Format.TEXT
    )
    if record_format is Format.AVRO and not is_avro:
        raise ConfigError(
            f"--format avro: the values of topic {topic.name!r} are not Avro (its setting value.format)"
        )
    if record_format is Format.HEX and topic.schemas:
        raise ConfigError(f"--format hex: topic {topic.name!r} has columns; use --format json")
    if record_format is not Format.JSON:
        # JSON without a header is printed as it is stored.
        is_raw = record_format is Format.TEXT and (is_avro or codec is None or codec.format == "json")
        decoder = None if record_format is Format.HEX or is_raw else codec
        return rendered_text(form, is_hex=record_format is Format.HEX, codec=decoder, on_error=on_error)
    if form != PrintFormat():
        raise ConfigError(
            "--property, --key, --headers and --timestamp are not for JSON: a record has all its fields"
        )
    return rendered_json(codec, on_error)


class _Reading:
    """What is read, from where, and when it ends."""

    def __init__(self, consumer: Consumer, topic: Topic, renderer: Renderer, *, is_group: bool) -> None:
        self._consumer, self._topic, self._renderer = consumer, topic, renderer
        self._is_group = is_group
        self._is_assigned = not is_group
        self._ends: dict[TopicPartition, int] = {}
        self._grows_with: int | None = None
        """How many partitions of the topic are assigned, if these are all."""
        self._printed = 0

    def begin(self, partitions: list[int] | None, place: Place) -> None:
        from spark_eos.protocol.types import TopicPartition

        name, consumer = self._topic.name, self._consumer
        if self._is_group:
            consumer.subscribe([name], on_assign=self._assigned)
            return
        for number in partitions or ():
            if number >= self._topic.partitions:
                raise UnknownTopicOrPartitionError(
                    f"topic {name!r} has no partition {number}: its partitions are 0 to {self._topic.partitions - 1}"
                )
        places = [TopicPartition(name, number) for number in partitions or range(self._topic.partitions)]
        consumer.assign(places)
        self._grows_with = None if partitions else len(places)
        self._ends = consumer.end_offsets(places)
        if place == "earliest":
            consumer.seek_to_beginning()
        elif place == "latest":
            consumer.seek_to_end()
        elif isinstance(place, tuple):
            first_records = consumer.offsets_for_times(dict.fromkeys(places, max(0, place[0])))
            for at in places:
                record = first_records[at]
                consumer.seek(at, self._ends[at] if record is None else record.offset)
        elif isinstance(place, int):
            starts = consumer.beginning_offsets(places)
            for at in places:
                end = self._ends[at]
                consumer.seek(at, min(end, max(starts[at], place if place >= 0 else end + place)))

    def _assigned(self, _consumer: object, places: list[TopicPartition]) -> None:
        self._is_assigned = True
        if not places:
            print("eoslog: the other members of the group have all partitions", file=sys.stderr)

    def run(
        self, interrupts: Interrupts, max_messages: int | None, timeout_ms: int | None, *, is_bounded: bool
    ) -> None:
        deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        with Progress() as progress:
            goes_on = not is_bounded and timeout_ms is None  # For ever: it would fill the log of a service.
            shows = not sys.stdout.isatty() and (progress.in_place or not goes_on)
            while max_messages is None or self._printed < max_messages:
                interrupts.check()
                limit = None if max_messages is None else min(_POLL_RECORDS, max_messages - self._printed)
                wait_ms: float = _WAIT_MS
                if is_bounded and self._is_assigned:
                    wait_ms = 0
                elif deadline is not None:
                    wait_ms = max(0.0, min(wait_ms, (deadline - time.monotonic()) * 1000))
                table = self._consumer.poll_arrow(wait_ms, limit)
                if table.num_rows:
                    for start in range(0, table.num_rows, _PRINT_RECORDS):
                        self._print(table.slice(start, _PRINT_RECORDS))
                        if shows:
                            progress.count("records", self._printed, 0)
                    if self._is_group:
                        self._consumer.commit()
                    if timeout_ms is not None:
                        deadline = time.monotonic() + timeout_ms / 1000
                    if is_bounded and not self._is_group and self._is_past_end(table):
                        return
                elif (is_bounded and self._is_assigned) or (
                    deadline is not None and time.monotonic() >= deadline
                ):
                    return
                if not is_bounded:
                    self._take_new_partitions()

    def _take_new_partitions(self) -> None:
        """Partitions that the topic has got since: all of their records are new."""
        from spark_eos.protocol.types import TopicPartition

        if self._grows_with is None:
            return
        count = len(self._consumer.partitions_for_topic(self._topic.name))
        if count > self._grows_with:
            places = [TopicPartition(self._topic.name, number) for number in range(count)]
            self._consumer.assign(places)
            self._consumer.seek_to_beginning(places[self._grows_with :])
            self._grows_with = count

    def _print(self, table: pa.Table) -> None:
        from spark_eos.cli.console.rendering import shown_on_terminal

        out = sys.stdout.buffer
        lines: list[bytes] = []
        try:
            lines.extend(self._renderer(table))
        finally:
            # What came before a record that cannot be decoded is printed.
            data = b"".join(lines)
            out.write(shown_on_terminal(data) if sys.stdout.isatty() else data)
            out.flush()
            self._printed += len(lines)

    def _is_past_end(self, table: pa.Table) -> bool:
        """Whether all is printed that was there at the start: a writer may go on for ever."""
        prefix = "_" if "_topic" in table.column_names else ""
        by_partition = table.select([f"{prefix}partition", f"{prefix}offset"]).group_by(f"{prefix}partition")
        for row in by_partition.aggregate([(f"{prefix}offset", "max")]).to_pylist():
            number, offset = row[f"{prefix}partition"], row[f"{prefix}offset_max"]
            for at in [at for at, end in self._ends.items() if at.partition == number and offset + 1 >= end]:
                del self._ends[at]
        return not self._ends
