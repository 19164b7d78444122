"""``eoslog produce``: lines of standard input or a file become records, as with ``kafka-console-producer``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from spark_eos.cli.console.interrupts import Interrupted, Interrupts, interruptible
from spark_eos.cli.console.properties import LineFormat, client_settings, line_format
from spark_eos.cli.options import ConfigFile, Json, TopicName, Url
from spark_eos.cli.output import print_json
from spark_eos.cli.parsing import Command
from spark_eos.cli.progress import Progress
from spark_eos.errors import (
    CommitOutcomeUnknownError,
    ConfigError,
    EosLogError,
    IllegalStateError,
    NotALogError,
)
from spark_eos.errors.counting import counted

if TYPE_CHECKING:
    from spark_eos.cli.console.intake import Intake
    from spark_eos.cli.console.sending import Sending
    from spark_eos.clients.producer.producer import Producer
    from spark_eos.log.log import Log
    from spark_eos.protocol.state import Topic

app = typer.Typer()


class Format(str, Enum):
    """How a line is read."""

    TEXT = "text"
    JSON = "json"
    AVRO = "avro"


@app.command("produce", cls=Command)
def produce(
    url: Url,
    topic: TopicName,
    file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Read the lines of this file (default: of standard input)."),
    ] = None,
    format_: Annotated[
        Format | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="What a line is: text (a value), json (columns, or a record as consume prints it), avro (a value in "
            "Avro's JSON). Default: json for topics with columns, avro where value.format is Avro, else text.",
        ),
    ] = None,
    line_property: Annotated[
        list[str] | None,
        typer.Option(
            *("--property", "--reader-property"),
            metavar="NAME=VALUE...",
            help="With text and avro: parse.key, parse.headers, key.separator, headers.delimiter, headers.separator, "
            "headers.key.separator, null.marker, ignore.error, as in Kafka. Repeatable.",
        ),
    ] = None,
    partition: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The partition of all records (default: by key).")
    ] = None,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Write all lines in one transaction of this transactional.id, or none."
        ),
    ] = None,
    producer_property: Annotated[
        list[str] | None,
        typer.Option(
            *("--producer-property", "--command-property"),
            metavar="NAME=VALUE...",
            help="A setting of the producer, such as compression.type=zstd. Repeatable.",
        ),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Write records: a line of standard input or of a file is one record.

    Without --transactional-id, records are written as they come. After an error or a signal a message says which lines
    are in the log. With it all lines become visible at once at the end of the input, or none of them.
    """
    settings = client_settings(command_config, producer_property, "--producer-property")
    if transactional_id is not None:
        settings["transactional.id"] = transactional_id
    form = line_format(line_property)
    sending: Sending | None = None
    try:
        with interruptible() as interrupts, _input(file) as descriptor:
            from spark_eos.cli.console.sending import Sending
            from spark_eos.clients.producer.producer import Producer

            with Producer(url, settings) as producer:
                existing_topic = find_topic(url, settings, topic)
                intake = _intake(existing_topic, topic, format_, form)
                sending = Sending(producer, topic, partition)
                is_transaction = "transactional.id" in settings
                _write(producer, sending, intake, descriptor, interrupts, is_transaction=is_transaction)
    except Interrupted as interrupted:  # Before or after `_write`, which tells of its own.
        _stop(interrupted, "no line is in the log" if sending is None else sending.account())
    assert sending is not None
    created = "" if existing_topic is not None or not sending.count else "; the topic is new"
    text = f"{counted(sending.count, 'record')} written to topic {topic}{created}"
    with _told_elsewhere(text):
        if as_json:
            for number, (offset, count) in sorted(sending.placed.items()):
                print_json({"topic": topic, "partition": number, "offset": offset, "records": count})
        else:
            print(text)
        sys.stdout.flush()


@contextmanager
def _told_elsewhere(text: str) -> Iterator[None]:
    """An error of the output says, too, that the records are in the log: else they would be sent once more."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; {text}") from error


def find_topic(url: str, settings: dict[str, str], name: str) -> Topic | None:
    """The topic as it is now; None if it, or the log, is not there."""
    from spark_eos.clients.opening import store_settings
    from spark_eos.log.log import Log

    try:
        log: Log = Log.shared(url, store_settings(settings))
    except NotALogError:
        return None
    return log.follow().topics.get(name)


@contextmanager
def _input(file: str | None) -> Iterator[int]:
    if file is None:
        if sys.stdin is None:
            raise ConfigError("standard input is closed: give --file FILE, or lines on a pipe")
        if sys.stdin.isatty():
            print("one record per line; Ctrl-D ends the input", file=sys.stderr)
        yield sys.stdin.fileno()
        return
    try:
        opened = Path(file).open("rb", buffering=0)  # noqa: SIM115  (an error in the block is not this one)
    except OSError as error:
        raise typer.BadParameter(
            f"{file!r} cannot be read: {error.strerror}", param_hint="'--file'"
        ) from None
    with opened:
        yield opened.fileno()


def _intake(topic: Topic | None, name: str, format_option: Format | None, form: LineFormat) -> Intake:
    from spark_eos.cli.console.intake import JsonRecords, TextLines, TypedRows
    from spark_eos.log.topics import codec_of, schema_of

    schema = None if topic is None else schema_of(topic)
    codec = None if topic is None else codec_of(topic)
    is_avro = codec is not None and codec.payload == "avro"
    record_format = format_option or (
        Format.JSON if schema is not None else Format.AVRO if is_avro else Format.TEXT
    )
    if record_format is Format.JSON and form != LineFormat():
        raise ConfigError(
            "--property is for lines of text: in JSON, key and headers are fields of the object"
        )
    if schema is not None:
        if record_format is not Format.JSON:
            raise ConfigError(
                f"topic {name!r} has columns: use --format json, an object with them on each line"
            )
        return TypedRows(schema)
    if record_format is Format.AVRO and not is_avro:
        raise ConfigError(
            f"--format avro: the values of topic {name!r} are not Avro (its setting value.format)"
        )
    if record_format is Format.TEXT and is_avro:
        raise ConfigError(f"the values of topic {name!r} are Avro: use --format avro or json")
    return JsonRecords(codec) if record_format is Format.JSON else TextLines(form, codec)


def _write(
    producer: Producer,
    sending: Sending,
    intake: Intake,
    descriptor: int,
    interrupts: Interrupts,
    *,
    is_transaction: bool,
) -> None:
    is_committing = False

    def ended() -> str:
        return _abort(producer, sending, is_committing) if is_transaction else _settle(sending)

    try:
        try:
            if is_transaction:
                producer.init_transactions()
                producer.begin_transaction()
            _send_all(sending, intake, descriptor, interrupts, is_transaction=is_transaction)
            interrupts.check()
            if is_transaction:
                is_committing = True
                _commit(producer)
            sending.settle()
        except EosLogError as error:
            raise _with_counts(error, ended()) from None
    except Interrupted as interrupted:  # Also while an error waits for what was sent before it.
        _stop(interrupted, ended())


def _stop(interrupted: Interrupted, account: str) -> NoReturn:
    print(f"eoslog: stopped by {interrupted}: {account}", file=sys.stderr)
    raise SystemExit(interrupted.exit_code) from None


def _abort(producer: Producer, sending: Sending, is_committing: bool) -> str:
    try:
        producer.abort_transaction()
    except IllegalStateError:
        if is_committing:  # It is committed, or its outcome is not known: nothing else may come.
            sending.give_up()
            if sending.unknown:
                return f"{sending.account()}; `eoslog history` lists the transaction if it is committed"
            return sending.account()
        # It was never begun.
    except EosLogError:
        pass  # Another producer has taken over: nothing of this one can get in any more.
    return "the transaction is not committed, no line is in the log"


def _settle(sending: Sending) -> str:
    with suppress(EosLogError):
        sending.settle()
    return sending.account()


def _with_counts(error: EosLogError, account: str) -> EosLogError:
    """The error, which also says which lines are in the log."""
    error.args = (f"{error}; {account}",)
    return error


def _commit(producer: Producer) -> None:
    try:
        producer.commit_transaction()
    except CommitOutcomeUnknownError:
        producer.commit_transaction()  # The same call finds its own request, if it is there.


def _send_all(
    sending: Sending, intake: Intake, descriptor: int, interrupts: Interrupts, *, is_transaction: bool
) -> None:
    from spark_eos.cli.console.lines import blocks

    number = 1
    shows = not os.isatty(descriptor)
    with Progress() if shows else nullcontext() as progress:

        def wait() -> None:
            interrupts.check()
            if not is_transaction:
                sending.settle()

        for lines in blocks(descriptor, wait):
            sending.send(intake.rows(lines, number), number)
            number += len(lines)
            if progress is not None:
                progress.count("lines sent", number - 1, 0)
