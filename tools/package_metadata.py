"""What the package says about where it lives, from one setting: the environment's UQLED_REPOSITORY.

The source does not know where it will be published. The workflow that publishes it does, and sets
an address such as `https://github.com/someone/uqled`. The package then names it, and the links of
the README, which are relative to the repository, work on PyPI too. Without the setting the package
names no address.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # only builds have it; tests call the functions
    MetadataHookInterface = object

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")


def make_links_absolute(markdown: str, repository: str) -> str:
    """Markdown whose relative links lead into the repository; pictures lead to the file itself.

    >>> make_links_absolute("[data](docs/data.md) ![x](docs/x.png)", "https://h/o/uqled")
    '[data](https://h/o/uqled/blob/main/docs/data.md) ![x](https://h/o/uqled/raw/main/docs/x.png)'
    """

    def rewrite(match: re.Match[str]) -> str:
        way = "raw" if match[1] else "blob"
        return f"{match[1]}[{match[2]}]({repository}/{way}/main/{match[3]})"

    return _LINK.sub(rewrite, markdown) if repository else markdown


def list_urls(repository: str) -> dict[str, str]:
    """The addresses that PyPI shows beside the package.

    >>> list_urls("https://h/o/uqled")["Issues"]
    'https://h/o/uqled/issues'
    """
    if not repository:
        return {}
    return {
        "Source": repository,
        "Issues": f"{repository}/issues",
        "Documentation": f"{repository}/blob/main/docs/tutorials/index.md",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
    }


class PackageMetadata(MetadataHookInterface):
    """Hatchling calls this for every build."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository = os.environ.get("UQLED_REPOSITORY", "").rstrip("/")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = make_links_absolute(text, repository)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = list_urls(repository)
