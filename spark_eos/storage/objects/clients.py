"""Which bucket or container a URL names, and the client of it that the settings and the environment ask for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from spark_eos.errors import ConfigError, IllegalStateError
from spark_eos.errors.loading import Loading
from spark_eos.storage.object_names import is_legal_name
from spark_eos.storage.settings import Settings

SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "az": "adls",
    "abfs": "adls",
    "abfss": "adls",
    "gs": "gcs",
}
"""Each scheme, and how the keys of its settings begin."""

EXAMPLES = {
    "s3": "s3://bucket/log",
    "adls": "abfss://container@account.dfs.core.windows.net/log or az://container/log",
    "gcs": "gs://bucket/log",
}

PATIENCE_S = 60.0
"""How long the library itself tries again where that is left to it."""

_CONTAINER = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]{1,254}")
_ACCOUNT_HOST = re.compile(r"([a-z0-9-]{3,63})\.(?:dfs|blob)\.([a-z0-9.-]+)")


class Location(NamedTuple):
    """A place in a bucket or container; ``account`` and ``endpoint`` are Azure's, if the URL names them."""

    url: str
    """The one spelling of it: equal URLs are equal places."""
    cloud: str
    """How the keys of its settings begin: s3, adls or gcs."""
    container: str
    prefix: str
    """What the keys of all objects begin with: empty, or with a slash at its end."""
    account: str | None = None
    endpoint: str | None = None

    @property
    def is_express(self) -> bool:
        """Whether it is a directory bucket (S3 Express One Zone): AWS reserves the end of the name for them."""
        return self.cloud == "s3" and self.container.endswith("--x-s3")

    @property
    def lists_in_order(self) -> bool:
        """Whether listings have the order of keys, and may begin behind one. Directory buckets have none."""
        return not self.is_express


def parse_location(url: str) -> Location:
    """The place a URL with one of the `SCHEMES` names. It is never percent-decoded.

    Raises `ConfigError` for a malformed one.
    """
    scheme, _, hier_part = url.partition(":")
    cloud = SCHEMES[scheme.lower()]
    host, _, path = hier_part.removeprefix("//").partition("/")
    # Half of a secret with a slash in it would pass for the bucket, and be shown.
    if ("@" in host and cloud != "adls") or (":" in host and "@" in hier_part):
        raise ConfigError(
            f"{url}: credentials do not belong into a URL; give them as settings "
            "(s3.access-key-id, s3.secret-access-key; adls.account-key) or in the environment"
        )
    container, _, account_host = host.partition("@")
    if not hier_part.startswith("//") or not _CONTAINER.fullmatch(container):
        raise ConfigError(
            f"{url}: {container!r} is no name of a bucket or container; write {EXAMPLES[cloud]}"
        )
    path = path.rstrip("/")
    if path and not is_legal_name(path):
        raise ConfigError(
            f"{url}: {path!r} has an empty part, or a part '.' or '..', or is too long; leave that out"
        )
    spelt = {"s3": "s3", "adls": "az", "gcs": "gs"}[cloud]
    account = endpoint = None
    if account_host:
        match = _ACCOUNT_HOST.fullmatch(account_host.lower())
        if match is None:
            raise ConfigError(f"{url}: {account_host!r} is no account's address; write {EXAMPLES['adls']}")
        account, endpoint = match[1], f"https://{match[1]}.blob.{match[2]}"
        spelt, container_at = "abfss", f"{container}@{match[1]}.dfs.{match[2]}"
    else:
        container_at = container
    place = f"{spelt}://{container_at}/{path}" if path else f"{spelt}://{container_at}"
    return Location(place, cloud, container, f"{path}/" if path else "", account, endpoint)


# -- Clients ------------------------------------------------------------------------------------------


def connect(location: Location, settings: Settings, *, patient: bool = False) -> Any:
    """A client of the library for ``location``; nothing is sent yet.

    It never tries anything again, which is left to the caller, unless it is ``patient``. Raises `ConfigError` for
    settings that contradict one another, and without the library.
    """
    foreign = [name for name in settings if not name.startswith(f"{location.cloud}.")]
    if foreign:
        raise ConfigError(
            f"setting {foreign[0]} is none of {location.url}: its own begin with {location.cloud}. Leave it out"
        )
    library = _library(location)
    check_process(location.url)
    make = {"s3": _s3, "adls": _azure, "gcs": _gcs}[location.cloud]
    kind, config, credentials, endpoint = make(library, location, settings)
    try:
        return kind(
            location.container,
            config=config,
            client_options=_client_options(location.cloud, settings, endpoint),
            retry_config=_retries(patient=patient),
            **({"credential_provider": credentials} if credentials else {}),
        )
    except Exception as error:  # noqa: BLE001  (whatever the library calls it, it is about what it was given)
        problem = settings.scrub(str(error).partition("\n")[0])
    # Outside of the block, lest the library's own text, with everything it was given, hangs on to ours.
    raise ConfigError(f"{location.url}: the settings do not fit: {problem}")


def _library(location: Location) -> Any:
    with Loading(location.url, "objectstore", "obstore"):
        from obstore import store
    return store


def endpoint_of(location: Location, settings: Settings) -> str | None:
    """Where the requests of `connect` go; None: to the cloud itself."""
    library = _library(location)
    make = {"s3": _s3, "adls": _azure, "gcs": _gcs}[location.cloud]
    endpoint: str | None = make(library, location, settings)[3]
    return endpoint


def static_options(location: Location, settings: Settings) -> dict[str, str]:
    """What `connect` tells its library of the place and of who asks, as texts, for a client of another library.

    What is not given, that client looks for in the environment and the machine, as the library does.
    """
    library = _library(location)
    make = {"s3": _s3, "adls": _azure, "gcs": _gcs}[location.cloud]
    _, config, credentials, _ = make(library, location, settings)
    options = {**config, **({} if credentials is None else credentials())}
    return {
        _OTHER_NAMES.get(name, name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
        if value is not None and name not in _OWN_NAMES
    }


_OTHER_NAMES = {
    "region": "aws_region",
    "aws_endpoint_url_s3": "aws_endpoint_url",
    "virtual_hosted_style_request": "aws_virtual_hosted_style_request",
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "token": "aws_session_token",
    "base_url": "google_base_url",
    "service_account": "google_service_account",
}
_OWN_NAMES = frozenset({"disable_bulk_delete", "expires_at", "credential_type"})

_process: list[int] = []
"""The process that has used the library."""


def check_process(url: str) -> None:
    """Raise `IllegalStateError` in a process forked from one that had used the library: it would wait for ever."""
    if not _process:
        _process.append(os.getpid())
    if _process[0] != os.getpid():
        raise IllegalStateError(
            f"{url}: this process was forked from one that had used an object store, whose threads did not come along: "
            "start it with multiprocessing's spawn or forkserver, or fork before the first use"
        )


def _retries(*, patient: bool) -> dict[str, Any]:
    backoff = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2}
    seconds = PATIENCE_S if patient else 0
    return {
        "max_retries": 10 if patient else 0,
        "backoff": backoff,
        "retry_timeout": timedelta(seconds=seconds),
    }


def _client_options(prefix: str, settings: Settings, endpoint: str | None) -> dict[str, Any]:
    options: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=settings.seconds(f"{prefix}.connect-timeout")),
        "timeout": timedelta(seconds=settings.seconds(f"{prefix}.request-timeout")),
        # A URL with http:// is a decision for it.
        "allow_http": (endpoint or "").lower().startswith("http://"),
    }
    proxy, authorities = settings.get(f"{prefix}.proxy-uri"), settings.get(f"{prefix}.ca-file")
    if proxy:
        options["proxy_url"] = proxy
    if authorities:
        try:
            with open(authorities, "rb") as file:
                options["root_certificate"] = file.read()
        except OSError as error:
            raise ConfigError(f"{prefix}.ca-file={authorities!r} cannot be read: {error.strerror}") from error
    return options


Made = tuple[Any, dict[str, Any], Callable[[], Mapping[str, Any]] | None, str | None]
"""The kind of client, its configuration, where its credentials come from (None: it looks itself), its address."""


def _s3(library: Any, location: Location, settings: Settings) -> Made:
    from spark_eos.storage.objects.aws_profile import Profile, read_profile

    key, secret = settings.get("s3.access-key-id"), settings.get("s3.secret-access-key")
    if (key is None) != (secret is None) or ("s3.session-token" in settings and key is None):
        raise ConfigError("s3.access-key-id and s3.secret-access-key belong together; give both, or neither")
    # As AWS's own tools do it: settings before the environment, keys there before a profile.
    chosen = settings.get("s3.profile-name")
    in_environment = "AWS_ACCESS_KEY_ID" in os.environ or "AWS_WEB_IDENTITY_TOKEN_FILE" in os.environ
    profile = Profile() if key or (in_environment and not chosen) else read_profile(chosen)
    endpoint = (
        settings.get("s3.endpoint")
        or os.environ.get("AWS_ENDPOINT_URL_S3")
        or os.environ.get("AWS_ENDPOINT_URL")
        or os.environ.get("AWS_ENDPOINT")
        or profile.endpoint
    )
    region = (
        settings.get("s3.region")
        or os.environ.get("AWS_REGION")
        or os.environ.get("AWS_DEFAULT_REGION")
        or profile.region
        or "us-east-1"
    )
    config: dict[str, Any] = {"region": region, "disable_bulk_delete": True}
    if not settings.flag("s3.path-style-access"):
        config["virtual_hosted_style_request"] = True
        endpoint = endpoint and _with_bucket(endpoint, location.container)
    if endpoint:
        config["aws_endpoint_url_s3"] = endpoint
    elif location.is_express:
        config["s3_express"] = True  # Another address, and sessions instead of signatures.
    if settings.flag("s3.anonymous"):
        config["skip_signature"] = True
        return library.S3Store, config, None, endpoint
    if key:
        profile = Profile(key, secret, settings.get("s3.session-token"))
    return library.S3Store, config, profile.credentials if profile.key else None, endpoint


def _with_bucket(endpoint: str, bucket: str) -> str:
    scheme, _, address = endpoint.partition("://")
    return endpoint if address.startswith(f"{bucket}.") else f"{scheme}://{bucket}.{address}"


def _azure(library: Any, location: Location, settings: Settings) -> Made:
    endpoint = (
        settings.get("adls.endpoint")
        or location.endpoint
        or os.environ.get("AZURE_STORAGE_ENDPOINT")
        or os.environ.get("AZURE_ENDPOINT")
    )
    account = (
        location.account or settings.get("adls.account-name") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    )
    if not account:
        raise ConfigError(
            f"{location.url} does not say which account it is in: write {EXAMPLES['adls']}, set adls.account-name, or "
            "AZURE_STORAGE_ACCOUNT_NAME in the environment"
        )
    config: dict[str, Any] = {"account_name": account}
    if endpoint:
        config["endpoint"] = endpoint
    names = [
        name
        for name in ("adls.account-key", "adls.sas-token", "adls.token", "adls.client-secret")
        if name in settings
    ]
    if len(names) > 1:
        raise ConfigError(f"{' and '.join(names)} contradict one another; keep one of them")
    for name, word in (
        ("adls.account-key", "access_key"),
        ("adls.sas-token", "sas_token"),
        ("adls.token", "token"),
    ):
        if name in settings:
            return library.AzureStore, config, _Fixed({word: settings[name], "expires_at": None}), endpoint
    if "adls.client-secret" in settings:
        for name in ("adls.client-id", "adls.tenant-id"):
            if name not in settings:
                raise ConfigError(f"adls.client-secret needs {name}")
        config |= {
            "client_id": settings["adls.client-id"],
            "client_secret": settings["adls.client-secret"],
            "tenant_id": settings["adls.tenant-id"],
            "credential_type": "client_secret",
        }
    return library.AzureStore, config, None, endpoint


def _gcs(library: Any, location: Location, settings: Settings) -> Made:  # noqa: ARG001  (as its siblings)
    endpoint = settings.get("gcs.service.host") or os.environ.get("GOOGLE_BASE_URL")
    config: dict[str, Any] = {"base_url": endpoint} if endpoint else {}
    if settings.flag("gcs.no-auth"):
        # The library's writes ask for credentials all the same: these mean nothing.
        anonymous = _Fixed({"token": "none", "expires_at": None})
        return library.GCSStore, {**config, "skip_signature": True}, anonymous, endpoint
    if "gcs.oauth2.token" in settings:
        fixed = _Fixed({"token": settings["gcs.oauth2.token"], "expires_at": None})
        return library.GCSStore, config, fixed, endpoint
    if "gcs.service-account-file" in settings:
        config["service_account"] = settings["gcs.service-account-file"]
    return library.GCSStore, config, None, endpoint


class _Fixed:
    """Credentials that were given: those of the environment do not mix with them."""

    def __init__(self, credentials: Mapping[str, Any]) -> None:
        self._credentials = credentials

    def __call__(self) -> Mapping[str, Any]:
        return self._credentials
