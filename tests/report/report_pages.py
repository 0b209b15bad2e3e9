"""A report as a parser sees it: its texts, tables, pictures and addresses."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas as pd

import uqled
from uqled.data import load
from uqled.storage.run import Run

HOSTILE = "<img src=x onerror=alert(1)>"


QUOTES = "\"'><script>alert(2)</script>"


VOID = {"meta", "img", "input", "br", "wbr"}


class ParsedPage(HTMLParser):
    """A page as a browser would take it apart: elements, attributes, visible text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.texts, self.articles = [], [], [], []
        self.is_broken = False  # a word goes on behind a place where the line may end
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)
        self.is_broken = tag == "wbr"
        if tag == "article":
            self.articles.append([])

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style" and data.strip():
            for texts in (self.texts, *(self.articles[-1:] if "article" in self.open else ())):
                start = texts.pop() if self.is_broken else ""
                texts.append(start + " ".join(data.split()))
            self.is_broken = False

    @property
    def text(self):
        return " ".join(self.texts)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def page_of(path):
    page = ParsedPage(path.read_text("utf-8"))
    refuse_what_is_not_self_contained(path.read_text("utf-8"), page)
    return page


def refuse_what_is_not_self_contained(text, page):
    """No script, no handler, no address but a fragment or the file's own data."""
    for tag, attributes in page.tags:
        assert tag not in {"script", "link", "iframe", "object", "embed", "form", "base"}
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in {"src", "href", "action", "srcset", "data", "poster"}:
                assert value.startswith(("data:image/", "#")), (tag, value)
    assert "url(" not in text
    assert "@import" not in text
    policy = next(a["content"] for a in page.all("meta") if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy


def detect_all(data, **options):
    options = {"method": "all", **options}
    return uqled.find_label_errors(data.labels, data.softmax, data.passes, **options)


def hostile_run(tmp_path, data, texts=None):
    """A run whose class names and texts are what an attacker would choose."""
    names = [HOSTILE, QUOTES, "a&b;", "</style></svg>", "\u202eright to left"]
    frame = pd.DataFrame({"text": texts, "label": np.array(names)[data.labels]})
    frame.to_csv(tmp_path / "data.csv", index=False)
    dataset = load(tmp_path / "data.csv", kind="texts")
    order = [names.index(name) for name in dataset.labels.names]  # sorted by name when loaded
    run = Run.begin(tmp_path / "run", {"made": "up"})
    N = len(dataset)
    run.write_data(
        dataset.labels, dataset.ids.tolist(), None, np.zeros(N, np.int32), dataset.source
    )
    run.write_fold(
        0,
        data.softmax[:, order].astype(np.float32),
        data.passes[:, :, order].astype(np.float32),
    )
    run.write_predictions([np.arange(N)], 5)
    return tmp_path / "run"
