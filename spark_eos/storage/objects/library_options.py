"""The settings of an object store as options of libraries that bring a client of their own (delta-rs, Polars).

They take the names of the Rust crate ``object_store``, as the client of this package does.
"""

from __future__ import annotations

from spark_eos.errors import ConfigError
from spark_eos.storage.objects.clients import SCHEMES, endpoint_of, parse_location, static_options
from spark_eos.storage.settings import NO_SETTINGS, Settings


def library_options(url: str, settings: Settings = NO_SETTINGS) -> dict[str, str]:
    """The options with which such a library reaches ``url`` as this process does; none for a folder.

    Raises `ConfigError` for settings that such libraries do not have.
    """
    if ":" not in url or url.partition(":")[0].lower() not in SCHEMES:
        return {}
    location = parse_location(url)
    cloud = location.cloud
    for name in (f"{cloud}.ca-file", "gcs.oauth2.token"):
        if name in settings:
            raise ConfigError(f"{url}: the libraries that write tables have no setting {name}; leave it out")
    options = static_options(location, settings)
    options |= {
        "connect_timeout": f"{settings.seconds(f'{cloud}.connect-timeout'):g}s",
        "timeout": f"{settings.seconds(f'{cloud}.request-timeout'):g}s",
        "allow_http": str((endpoint_of(location, settings) or "").lower().startswith("http://")).lower(),
    }
    proxy = settings.get(f"{cloud}.proxy-uri")
    if proxy:
        options["proxy_url"] = proxy
    if cloud == "s3":
        options["conditional_put"] = "etag"  # A commit creates a name that is free.
    return options
