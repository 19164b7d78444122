"""The files of the page, from the package: HTML, styles, scripts."""

from __future__ import annotations

import html
import re
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

_NAME = re.compile(r"(?:[a-z]+/)?[a-z][a-z-]*\.(html|css|js|svg)")
"""A file, or one in a folder of the page. No such name leads out of the package."""


def static_routes() -> list[Route]:
    """The routes of all files."""
    return [
        Route("/", _index),
        Route("/favicon.ico", _icon),
        Route("/static/{name:path}", _static),
    ]


def login_page(message: str, status: int) -> Response:
    """The form that asks for the token."""
    page = _read("login.html").decode().replace("{{message}}", html.escape(message))
    return Response(page, status, media_type=_TYPES["html"])


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    match = _NAME.fullmatch(name)
    try:
        data = _read(name) if match else None
    except (FileNotFoundError, IsADirectoryError):
        data = None
    if match is None or data is None:
        return JSONResponse({"error": "there is no such file", "code": "NOT_FOUND"}, 404)
    return Response(data, media_type=_TYPES[match[1]])


async def _index(_: Request) -> Response:
    return Response(_read("index.html"), media_type=_TYPES["html"])


async def _icon(_: Request) -> Response:
    return Response(_read("icon.svg"), media_type=_TYPES["svg"])


def _read(name: str) -> bytes:
    return (files("spark_eos.extensions.ui") / "static").joinpath(*name.split("/")).read_bytes()
