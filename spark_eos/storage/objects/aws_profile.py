"""A profile of AWS's own files, as far as the library below does not know them: keys, region, endpoint."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from spark_eos.errors import ConfigError

_ELSEWHERE = ("sso_session", "sso_start_url", "role_arn", "credential_process", "web_identity_token_file")


class Profile(NamedTuple):
    """What a profile sets. ``key`` None: no keys."""

    key: str | None = None
    secret: str | None = None
    token: str | None = None
    region: str | None = None
    endpoint: str | None = None

    def __repr__(self) -> str:
        return f"Profile(key={self.key!r}, region={self.region!r}, endpoint={self.endpoint!r})"

    def credentials(self) -> Mapping[str, Any]:
        """As the library wants to be given them."""
        return {
            "access_key_id": self.key,
            "secret_access_key": self.secret,
            "token": self.token,
            "expires_at": None,
        }


def read_profile(name: str | None) -> Profile:
    """The profile ``name`` (None: ``AWS_PROFILE``, else ``default``) of the files AWS's own tools read.

    Those are ``~/.aws/credentials`` and ``~/.aws/config``, or what ``AWS_SHARED_CREDENTIALS_FILE`` and
    ``AWS_CONFIG_FILE`` name. Raises `ConfigError` if a profile that was asked for is not there, or gets its
    credentials by a way that only AWS's own tools know. A default that is not there is empty.
    """
    explicit_name = name or os.environ.get("AWS_PROFILE")
    profile = explicit_name or "default"
    values = {
        **_section(
            "AWS_CONFIG_FILE", "~/.aws/config", profile if profile == "default" else f"profile {profile}"
        ),
        **_section("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", profile),
    }
    if explicit_name and not values:
        raise ConfigError(f"there is no profile {explicit_name!r} in ~/.aws/config or ~/.aws/credentials")
    key, secret = values.get("aws_access_key_id"), values.get("aws_secret_access_key")
    if explicit_name and not (key and secret):
        for word in _ELSEWHERE:
            if word in values:
                raise ConfigError(
                    f"profile {explicit_name!r} gets its credentials by {word}, which only AWS's own tools know: run "
                    f'eval "$(aws configure export-credentials --profile {explicit_name} --format env)" first'
                )
    return Profile(
        key if secret else None,
        secret if key else None,
        values.get("aws_session_token") if key and secret else None,
        values.get("region"),
        values.get("endpoint_url"),
    )


def _section(variable: str, default: str, section: str) -> dict[str, str]:
    path = os.path.expanduser(os.environ.get(variable) or default)
    parser = configparser.ConfigParser(interpolation=None, default_section="\0")
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
    except OSError:
        return {}
    except (configparser.Error, UnicodeDecodeError) as error:
        # Its text quotes the line, which may be a secret's.
        raise ConfigError(f"{path} is not a file of profiles: {type(error).__name__}") from None
    return dict(parser[section]) if parser.has_section(section) else {}
