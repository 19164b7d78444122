"""``eoslog ui``."""

from __future__ import annotations

import socket
import sys
from typing import Annotated

import typer

from spark_eos.cli.options import ConfigFile, Json, Urls, store_settings
from spark_eos.cli.output import print_json
from spark_eos.cli.parsing import Command
from spark_eos.cli.usage.added import Added
from spark_eos.errors.loading import Loading

app = typer.Typer()


@app.command("ui", cls=Command)
def ui(
    urls: Urls,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="The address to listen at. Other machines need the token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65_535, help="The port; 0 takes a free one.")
    ] = 0,
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="Let the page change the log, after it has asked.")
    ] = False,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar="EOSLOG_UI_TOKEN",
            help="Ask for this token. Users of this machine can see arguments: prefer the environment variable.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A further name of this host, for instance of a proxy. Repeatable."
        ),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Serve a page that shows logs live: topics, records, lag, transactions, history, storage, health.

    It only reads, and listens to this machine alone, unless --host and --allow-writes say otherwise.
    """
    with Loading("eoslog ui", "ui", "starlette", "uvicorn"):
        import uvicorn  # noqa: F401

        from spark_eos.extensions.ui import app  # noqa: F401
    from spark_eos.extensions.ui.follower import Follower
    from spark_eos.extensions.ui.security import Access, is_loopback, new_token
    from spark_eos.extensions.ui.server import Server
    from spark_eos.serving.address import url_of

    made = token is None and not is_loopback(host)
    if made:
        token = new_token()
    access = Access(token, host, allow_host or ())
    settings = store_settings(command_config)
    followers = [Follower(url, settings) for url in urls]
    server = Server(followers, access, host=host, port=port, allow_writes=allow_writes)
    if as_json:
        print_json({"url": server.url, "token": token if made else None})
    else:
        print(server.url)
        if host in {"0.0.0.0", "::"}:  # noqa: S104
            print(f"from other machines: {url_of(socket.gethostname(), server.port)}/")
        if made:
            print(f"token: {token}")
    sys.stdout.flush()
    server.run()


ADDED = Added(
    app,
    {
        "ui": ("eoslog ui LOG --port 8080", "eoslog ui LOG --allow-writes"),
    },
)
