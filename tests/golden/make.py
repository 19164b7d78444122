"""Write what follows from today's format, where it is missing or changed; ``scripts/generate`` does.

The golden logs: one for each group of features (`tests.golden.logs`), in the folder of the format's number, with what a
reader sees of it beside it. Clock and ids are fixed, so the same code writes the same bytes. And for the page of the
file format: the Avro schemas, and their fingerprints. What a release has written is never written again: the point of a
golden log is that it was written by the code of its day.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from spark_eos.log.log import Log
from spark_eos.protocol.encoding import index_pages, schema, snapshots
from spark_eos.protocol.encoding.avro import fingerprint
from tests.golden.logs import LOGS
from tests.golden.seen import seen

GOLDEN = Path(__file__).parent
PAGE = GOLDEN.parents[1] / "docs/reference/format.md"
KINDS = {"entry": schema.written(), "snapshot": snapshots.written(), "index-page": index_pages.written()}
"""The schemas of each kind, by the version of the format that brought it."""
RELEASED = 0
"""The newest version of the format that a release has written. Each release with a newer one raises it."""


def format_number() -> int:
    """The version of the format that is written now."""
    return max(map(max, KINDS.values()))


def differing(ours: Path, theirs: Path) -> list[str]:
    """The entries, snapshots and index pages in which two logs differ.

    Another pyarrow writes other bytes into Parquet files: then the entries before the first such file are compared.
    """
    one, other = map(_stored, (ours, theirs))
    if _pyarrow_of(ours) != _pyarrow_of(theirs):
        first = min(name for name in other if b".parquet" in other[name] and other[name][:6] == b"EOSLOG")
        one, other = ({n: log[n] for n in log if "_log/0" <= n < first} for log in (one, other))
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def _stored(log: Path) -> dict[str, bytes]:
    return {path.relative_to(log).as_posix(): path.read_bytes() for path in (log / "_log").rglob("*.avro")}


def _pyarrow_of(log: Path) -> set[str]:
    return {str(pq.read_metadata(path).created_by) for path in log.rglob("*.parquet")}


def write_log(name: str, folder: Path) -> bool:
    """Whether the golden log was missing or changed; then it is written."""
    log, expected = folder / name, folder / f"{name}.json"
    with tempfile.TemporaryDirectory() as place:
        new = Path(place, name)
        LOGS[name](new)
        text = json.dumps(seen(Log.open(new)), indent=1) + "\n"
        is_there = log.exists() and expected.exists()
        if is_there and not differing(new, log) and expected.read_text("utf-8") == text:
            return False
        shutil.rmtree(log, ignore_errors=True)
        shutil.copytree(new, log)
        expected.write_text(text, "utf-8")
        return True


def write_schemas(page: Path) -> list[str]:
    """Write the schemas that are missing or changed, with their rows in the table of ``page``. Returns their names."""
    changed = []
    for kind, schemas in KINDS.items():
        for version, one in schemas.items():
            name = f"{kind}-{version}"
            path = page.parent / f"avro/{name}.avsc"
            if version <= RELEASED or (path.exists() and json.loads(path.read_text("utf-8")) == one):
                continue
            path.parent.mkdir(exist_ok=True)
            path.write_text(_folded(one), "utf-8")
            text, row = (
                page.read_text("utf-8"),
                f"| [{name}](avro/{name}.avsc) | `{fingerprint(one).hex()}` |",
            )
            known = re.escape(f"| [{name}](")
            if re.search(known, text):
                text = re.sub(rf"{known}.*?\) \| `\w*` \|", row, text)
            else:  # After the last row.
                text = re.sub(r"((?:\| \[\S+\]\(avro/.*\n)+)", rf"\g<1>{row} |\n", text, count=1)
            page.write_text(text, "utf-8")
            changed.append(name)
    return changed


def _folded(one: Any) -> str:
    """A schema as JSON in which a field of a plain type has one line."""
    plain = r'\{\s+("name": "\w+",)\s+("type": (?:"\w+"|\[[^\[\]{}]*\]|\{[^{}]*\}))\s+\}'
    text = re.sub(
        plain,
        lambda found: "{" + re.sub(r"\s+", " ", f"{found[1]} {found[2]}") + "}",
        json.dumps(one, indent=1),
    )
    return text + "\n"


def main(golden: Path = GOLDEN, page: Path = PAGE) -> list[str]:
    """Write what is missing or changed, and return what was: nothing that a release has written."""
    if format_number() == RELEASED:
        return []
    folder = golden / f"v{format_number()}"
    return write_schemas(page) + [name for name in LOGS if write_log(name, folder)]
