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
    linked_files = _list_linked_files()
    for source in linked_files:
        address = _address_of(Path(source))
        if (ROOT / source).is_dir():
            files.append(
                File.generated(config, address, content=_list_folder(source, linked_files))
            )
        else:
            files.append(File.generated(config, address, abs_src_path=ROOT / source))
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
    """What lies outside docs/ and a document or a file so linked links to, from the root.

    Of a folder, its documents are part of the site too.
    """
    todo = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    linked_files: set[str] = set()
    while todo:
        document = todo.pop()
        for _, link in _LINK.findall(document.read_text()):
            target = (document.parent / link).resolve()
            if not target.exists() or not target.is_relative_to(ROOT):
                continue
            for one in [target, *(target.glob("*.md") if target.is_dir() else [])]:
                name = one.relative_to(ROOT).as_posix()
                if (
                    name != "README.md"
                    and not name.startswith("docs/")
                    and name not in linked_files
                ):
                    linked_files.add(name)
                    if one.suffix == ".md":
                        todo.append(one)
    return sorted(linked_files)


def _list_folder(folder: str, linked_files: list[str]) -> str:
    """A page that stands for a folder: its documents."""
    names = [Path(one).name for one in linked_files if Path(one).parent == Path(folder)]
    lines = [f"- [{name}]({name})" for name in names if (ROOT / folder / name).is_file()]
    return "\n".join([f"# {folder}", "", *lines, ""])


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
    page = "/index.md" if (ROOT / source).is_dir() else ""
    return f"repository/{source.as_posix()}{page}"


def _relative(address: str, page: str) -> str:
    return "../" * page.count("/") + address
