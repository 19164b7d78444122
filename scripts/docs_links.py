"""A hook of MkDocs: links of pages to files outside of docs/ lead to the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """The page with those links replaced; a link to a file that does not exist stays, for MkDocs to complain."""
    root = Path(config["config_file_path"]).resolve().parent
    docs = root / "docs"
    folder = (docs / page.file.src_path).parent

    def absolute(link: re.Match[str]) -> str:
        target = (folder / link[1]).resolve()
        if target.is_relative_to(docs) or not target.exists() or not target.is_relative_to(root):
            return link[0]
        kind = "tree" if target.is_dir() else "blob"
        return f"]({config['repo_url']}/{kind}/main/{target.relative_to(root).as_posix()}{link[2] or ''})"

    return _LINK.sub(absolute, markdown)
