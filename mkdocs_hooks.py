"""What the site shows beside docs/: the README as its first page, and the committed results.

The documents link to files outside docs/, as they must on a code host. Here those files become part
of the site, and the links follow.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent
_LINK = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    files.append(File.generated(config, "index.md", content=(ROOT / "README.md").read_text()))
    for source in _list_linked_files():
        files.append(File.generated(config, f"repository/{source}", abs_src_path=ROOT / source))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite links that leave docs/, so that they lead to the copies in the site."""
    name = page.file.src_uri
    folder = _home_of(name)

    def rewrite(match: re.Match[str]) -> str:
        target = (ROOT / folder / match[2]).resolve()
        if not target.is_relative_to(ROOT) or not target.exists():
            return match[0]
        return match[1] + _relative(_address_of(target.relative_to(ROOT)), name)

    return _LINK.sub(rewrite, markdown)


def _list_linked_files() -> list[str]:
    """Files outside docs/ that a document or a file so linked links to, from the root."""
    todo = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    linked: set[str] = set()
    while todo:
        document = todo.pop()
        for _, link in _LINK.findall(document.read_text()):
            target = (document.parent / link).resolve()
            if not target.is_file() or not target.is_relative_to(ROOT):
                continue
            name = target.relative_to(ROOT).as_posix()
            if name != "README.md" and not name.startswith("docs/") and name not in linked:
                linked.add(name)
                if target.suffix == ".md":
                    todo.append(target)
    return sorted(linked)


def _home_of(name: str) -> Path:
    """The folder in the repository of a page of the site."""
    if name == "index.md":
        return Path()
    if name.startswith("repository/"):
        return Path(name).relative_to("repository").parent
    return Path("docs", name).parent


def _address_of(source: Path) -> str:
    """The page or file of the site that shows a file of the repository."""
    if source == Path("README.md"):
        return "index.md"
    if source.parts[0] == "docs":
        return source.relative_to("docs").as_posix()
    return f"repository/{source.as_posix()}"


def _relative(address: str, page: str) -> str:
    return "../" * page.count("/") + address
