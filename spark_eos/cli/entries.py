"""``eoslog dump``."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from spark_eos.cli.options import ConfigFile, Json, Url, open_log
from spark_eos.cli.output import print_json
from spark_eos.cli.parsing import Command

__all__ = ["app"]

app = typer.Typer()


@app.command("dump", cls=Command)
def dump(
    url: Url,
    first: Annotated[int, typer.Option("--from", metavar="SEQ", help="The first entry to show.")] = 0,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show the entries of the transaction log."""
    from spark_eos.cli.dump import dump as lines_of

    for line in lines_of(open_log(url, command_config), first):
        if as_json:
            print_json(line)
        else:
            print(_readable(line))


def _readable(line: dict[str, Any]) -> str:
    kind = line["kind"]
    if kind == "control":
        return (
            f"      {line['topic']}-{line['partition']} offset {line['offset']}: {line['type']} batch of producer "
            f"{line['producer_id']} epoch {line['epoch']} transaction {line['number']}"
        )
    if kind == "request":
        verdict = f"REJECTED: {line['error']}" if line["error"] else "accepted"
        return f"entry {line['seq']} at {line['timestamp_ms']} by {line['writer'] or '?'}: {verdict}"
    fields = " ".join(f"{name}={_short(value)}" for name, value in line["fields"].items())
    return f"   {line['action']} {fields}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 200 else f"{text[:197]}..."
