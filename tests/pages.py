"""A reader of HTML pages, and small evaluations, maps and histories to show on them."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import numpy as np
import polars as pl

from eventvec import reporting
from eventvec.evaluation import Evaluation
from eventvec.evaluation.result import Difference, Result, Scores

HOSTILE = "<img src=x onerror=alert(1)></script>\"'&"
VOID = {"meta", "link", "br", "img", "input", "hr"}
HISTORY = [
    {"epoch": 1, "loss": 30.0, "validation": 31.0, "seconds": 2.0, "events_per_second": 4000},
    {"epoch": 2, "loss": 20.0, "validation": 25.5, "seconds": 4.0, "events_per_second": 4100},
]


class Reader(HTMLParser):
    """Check that elements nest, and keep attributes, texts outside scripts, and the data of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self.styles: list[str] = []
        self.data: dict[str, Any] = {}
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        tag, attributes = self.open[-1] if self.open else ("", {})
        if tag == "script":
            self.data = json.loads(data) if attributes.get("id") == "data" else self.data
        elif tag == "style":
            self.styles.append(data)
        else:
            self.texts.append(data)


def scores(*values: float) -> Scores:
    return Scores(values)


def evaluation(task: Any = "binary", embedding: float = 0.8, **changes: Any) -> Evaluation:
    """Return an evaluation of two feature sets by two models at two shares of labels; all scores differ."""
    results, differences = [], []
    for i, (fraction, model) in enumerate([(1.0, "lightgbm"), (1.0, "knn"), (0.05, "lightgbm"), (0.05, "knn")]):
        ours, theirs = scores(embedding - i / 50, embedding - i / 50 + 0.02), scores(0.7 - i / 50, 0.74 - i / 50)
        results += [Result(n, model, fraction, s, s) for n, s in (("embedding", ours), ("aggregates", theirs))]
        differences.append(Difference("embedding", "aggregates", model, fraction, ours - theirs))
    fields = {"label": "churn", "task": task, "n": 1200, "folds": 2, "protocol": "holdout", "positive": True}
    fields |= {"results": tuple(results), "differences": tuple(differences), "notes": ("A note.",)}
    return Evaluation(**{**fields, **changes})


def points(n: int = 12, **changes: Any) -> reporting.Map:
    """Return a map of `n` points with a numeric and a text column."""
    columns = pl.DataFrame({"year": [float(i) for i in range(n - 1)] + [None], "kind": ["a", "b", None] * (n // 3)})
    keys = pl.Series("card", [str(i) for i in range(n)])
    fields = {"points": np.arange(2.0 * n).reshape(n, 2), "columns": columns, "keys": keys}
    return reporting.Map(**{**fields, "caption": "A caption.", **changes})
