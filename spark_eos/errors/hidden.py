"""URLs without what may be secret: every error is cleaned of it, and so is what is logged, exported and kept."""

from __future__ import annotations

import re

# The user is all up to the last @ before a slash. Secrets have slashes, too, as those of AWS: then what follows a colon
# is no port, and the user is all up to the last @.
_SCHEME = r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://"
_URL = re.compile(
    _SCHEME + r"(?P<user>(?:[^/?#]*@|[^/?#:\[]*:(?!\d+(?:\W|$)).*@)?)(?P<place>[^?#]*)", re.DOTALL
)
_IN_TEXT = re.compile(
    _SCHEME + r"(?P<user>(?:[^\s/?#]*@|[^\s/?#:\[]*:(?!\d+(?:\W|$))\S*@)?)(?P<place>[^\s?#'\"]*)"
    r"(?:\?[^\s#'\"]*?(?=[.,:;)]*(?:[\s#'\"]|$)))?"
)
# Libraries for HTTP name what they ask a server for without scheme and host.
_QUERY = re.compile(r"\?[\w.~%+-]+=[^\s'\"]*?(?=[.,:;)]*(?:[\s'\"]|$))")


def safe_url(url: str) -> str:
    """A URL as it may be shown and kept: without user, password, query and fragment, which may be secret.

    Other text stays as it is. The container in ``abfss://container@account…`` is no user. The words of the trail have
    URLs of this form, so it is part of the rules (`spark_eos.protocol.rules.trail`).
    """
    match = _URL.match(url)
    return url if match is None else _shown(match)


def safe_text(text: str) -> str:
    """A sentence with the URLs in it as `safe_url` shows them; what follows a ``#`` is a name, and stays."""
    return _QUERY.sub("", _IN_TEXT.sub(_shown, text) if "://" in text else text)


def _shown(match: re.Match[str]) -> str:
    user = match["user"]
    keeps = ":" not in user and match["scheme"].lower() in {"abfs", "abfss", "wasb", "wasbs"}
    return f"{match['scheme']}://{user if keeps else ''}{match['place']}"
