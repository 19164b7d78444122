"""The catalog of Iceberg tables, by the name that pyiceberg knows it by, and the addresses of files.

The log stores the name of a catalog and nothing else: its address and its secrets are pyiceberg's own settings
(``~/.pyiceberg.yaml``, or environment variables such as ``PYICEBERG_CATALOG__PROD__URI``) of each process that
publishes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from spark_eos.errors import ConfigError, StoreUnavailableError
from spark_eos.errors.loading import Loading
from spark_eos.storage import NO_SETTINGS, Settings, is_object_store

_SCHEMES = frozenset({"s3", "s3a", "gs", "abfs", "abfss"})
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


def open_catalog(name: str, settings: Settings = NO_SETTINGS) -> Any:
    """The catalog that pyiceberg's own settings call ``name``.

    ``settings`` are those of the log's object store, under the names that pyiceberg has for them, too. What the
    catalog itself says of a store is taken first. Raises `ConfigError` if there is no such catalog,
    `StoreUnavailableError` if its database or server does not answer.
    """
    with Loading("an Iceberg table", "tables", "pyiceberg"):
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NotInstalledError
        from pyiceberg.utils.config import Config
    if not re.fullmatch(r"[A-Za-z0-9-]+", name):
        raise ConfigError(f"catalog {name!r}: a catalog's name has letters, digits and hyphens")
    config = Config().get_catalog_config(name)
    if not config:
        variable = f"PYICEBERG_CATALOG__{name.upper().replace('-', '_')}__URI"
        raise ConfigError(
            f"pyiceberg knows no catalog {name!r}: describe it in ~/.pyiceberg.yaml, or set {variable} (for a SQL "
            "catalog the address of its database, for a REST catalog its URL)"
        )
    try:
        return load_catalog(name, **{**settings, **config})  # type: ignore[arg-type]  # pyiceberg takes what it has read
    except (ImportError, NotInstalledError) as error:
        raise ConfigError(
            f"catalog {name!r}: a package that pyiceberg needs for it is missing: {error}"
        ) from error
    except ValueError:
        # Not the message, here and in the traceback: it may have all of the catalog's settings.
        raise ConfigError(f"catalog {name!r}: pyiceberg cannot open it with its settings") from None
    except Exception as error:  # noqa: BLE001  (of a database's or a server's library, as it is asked right away)
        line = str(error).partition("\n")[0]
        raise StoreUnavailableError(
            f"catalog {name!r} cannot be opened: {type(error).__name__}: {line}"
        ) from None


def check_identifier(identifier: str) -> str:
    """The name of a table with its namespaces in front. Raises `ConfigError` for one that is none."""
    parts = identifier.split(".")
    if len(parts) < 2 or not all(_NAME.fullmatch(part) for part in parts):
        raise ConfigError(
            f"Iceberg table {identifier!r}: name a table as namespace.table, with letters, digits, '_' and '-'"
        )
    return identifier


def address(root: str) -> str:
    """What Iceberg's readers call the folder ``root``. Raises `ConfigError` for one that they do not reach."""
    if is_object_store(root):
        scheme = root.partition(":")[0].lower()
        if scheme not in _SCHEMES:
            raise ConfigError(
                f"{root}: Iceberg tables cannot be at {scheme}://; they can at s3, gs, abfs and abfss"
            )
        url = root
    elif "://" in root:
        raise ConfigError(
            f"{root}: Iceberg tables are in folders and buckets alone; publish a copy into one of these"
        )
    else:
        url = f"file://{Path(root).absolute().as_posix()}"
    refused = re.search(r"[#?%\x00-\x1f\x7f]", url)
    if refused is not None:
        raise ConfigError(
            f"{root}: Iceberg's readers do not agree on {refused[0]!r} in the name of a file; use another folder"
        )
    return url.rstrip("/")
