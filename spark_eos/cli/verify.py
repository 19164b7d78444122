"""``eoslog verify``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.options import ConfigFile, Json, Url, open_log, store_settings
from spark_eos.cli.output import PAGES, print_json
from spark_eos.cli.parsing import Command
from spark_eos.cli.progress import Progress
from spark_eos.errors import CorruptRecordError, EosLogError, StorePermissionError
from spark_eos.errors.counting import counted

if TYPE_CHECKING:
    from spark_eos.maintenance.verify.verify import Finding, Summary

app = typer.Typer()

_PAGE = f"{PAGES}runbooks/damaged-file.md"


@app.command("verify", cls=Command)
def verify(
    url: Url,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Check references only: read no data and no retired entries."),
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Write damaged or missing snapshots and indexes again; never entries or data.",
        ),
    ] = False,
    note: Annotated[
        bool,
        typer.Option("--note", help="Note the time and the result in the log, for eoslog status and alerts."),
    ] = False,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Check a whole log: entries, snapshots, indexes, data. It writes nothing without --repair and --note."""
    from spark_eos.maintenance.verify.verify import Verdict
    from spark_eos.maintenance.verify.verify import verify as check

    if note and quick:
        raise typer.BadParameter("a quick check reads no data: leave out --quick", param_hint="'--note'")
    settings = store_settings(command_config)
    if note:
        _check_readable(url, command_config)
    with Progress(stopped="the rest of the log was not looked at") as progress:

        def show(finding: Finding) -> None:
            progress.clear()
            if as_json:
                print_json({**asdict(finding), "verdict": finding.verdict.value})
            else:
                remedy = f"; {finding.remedy}" if finding.remedy else ""
                print(f"{finding.verdict.value}: {finding.name}: {finding.text}{remedy}")

        summary = check(url, show, repair=repair, quick=quick, progress=progress.count, settings=settings)
    if as_json:
        counts = {verdict.value: count for verdict, count in summary.found.items()}
        print_json({**asdict(summary), "found": counts, "quick": quick})
    else:
        _print_summary(summary, quick=quick)
    sys.stdout.flush()
    wrong, unread = summary.found[Verdict.WRONG], summary.found[Verdict.UNREAD]
    if note and (wrong or not unread):
        _note(url, command_config, is_sound=not wrong)
    if wrong:
        raise CorruptRecordError(
            f"{url}: {wrong:,} thing{'s are' if wrong > 1 else ' is'} wrong, see above; how files are put back: {_PAGE}"
        )
    if unread:
        noted = "; the result was not noted" if note else ""
        raise StorePermissionError(
            f"{url}: nothing is wrong in what was read, and not all could be read, see above{noted}"
        )


def _check_readable(url: str, command_config: str | None) -> None:
    """Raise `ConfigError` for an encrypted log without keys: what was not read is not to be noted as verified."""
    from spark_eos.log.encryption import keys_missing

    try:
        log = open_log(url, command_config)
    except EosLogError:
        return  # The check itself says what is wrong.
    if log.state.encrypted_at >= 0 and log.store.encryption_key_id is None:
        raise keys_missing(url, log.state, "--note")


def _note(url: str, command_config: str | None, *, is_sound: bool) -> None:
    from spark_eos.clients.admin import Admin

    try:
        Admin(open_log(url, command_config)).note_verify(sound=is_sound)
    except EosLogError as error:
        if is_sound:
            raise
        # That the log is damaged is the error of this command; it may be why nothing can be noted.
        print(f"not noted in the log: {error}", file=sys.stderr)


def _print_summary(summary: Summary, *, quick: bool) -> None:
    verb = "present" if quick else "read"
    if summary.unread_files and not quick:
        verb += f" but for {counted(summary.unread_files, 'file')}"
    print(
        f"entries: {summary.entries:,} read, {summary.retired:,} retired, up to entry {summary.last_entry:,}; "
        f"{counted(summary.refused_requests, 'refused request')} in them"
    )
    print(f"snapshots: {summary.snapshots:,}; index pages: {summary.index_pages:,}")
    print(
        f"data: {counted(summary.batches, 'batch', 'batches')} of {counted(summary.partitions, 'partition')}, "
        f"{counted(summary.records, 'record')} in {counted(summary.files, 'file')} of "
        f"{counted(summary.bytes, 'byte')}, {verb}"
    )
    print(
        f"not referred to: {counted(summary.unreferenced_files, 'data file')} of "
        f"{counted(summary.unreferenced_bytes, 'byte')}, {counted(summary.unreferenced_index_pages, 'index page')}"
    )
    print(", ".join(f"{verdict.value}: {count:,}" for verdict, count in summary.found.items()))
