"""A reader of HTML pages, the axes of a chart, and a small evaluation to show on pages."""

from __future__ import annotations

import base64
import json
import zlib
from html.parser import HTMLParser
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eventvec.answers import Answer, Chart
from eventvec.statistics import Estimate

HOSTILE = "<img src=x onerror=alert(1)></script>\"'&$x$"
VOID = {"meta", "link", "br", "img", "input", "hr"}
HISTORY = [
    {"epoch": 1, "loss": 30.0, "validation": 31.0, "seconds": 2.0, "events_per_second": 4000},
    {"epoch": 2, "loss": 20.0, "validation": 25.5, "seconds": 4.0, "events_per_second": 4100},
]


class Reader(HTMLParser):
    """Check that elements nest, and keep attributes, texts outside scripts, scripts, and the data of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self.styles: list[str] = []
        self.scripts: list[str] = []
        self.data: dict[str, Any] = {}
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        tag, attributes = self.open[-1] if self.open else ("", {})
        if tag == "script" and attributes.get("id") == "data":
            self.data = json.loads(zlib.decompress(base64.b64decode(data)))
        elif tag in ("script", "style"):
            {"script": self.scripts, "style": self.styles}[tag].append(data)
        else:
            self.texts.append(data)


def axes_of(chart: Chart) -> Axes:
    """Return the axes on which a chart was drawn."""
    axes = Figure(figsize=(12, 4)).subplots()
    chart.draw(axes)
    return axes


def evaluation(embedding: float = 0.8, label: str = "churn", **changes: Any) -> Answer:
    """Return an evaluation of two sets of features by two models with two shares of the labels; all scores differ."""
    rows = []
    for i, (fraction, model) in enumerate([(1.0, "lightgbm"), (1.0, "knn"), (0.05, "lightgbm"), (0.05, "knn")]):
        for features, score in (("embedding", embedding), ("aggregates", 0.7)):
            estimate = Estimate.around(score - i / 50, 0.01)
            rows.append({"features": features, "model": model, "fraction": fraction, "score": estimate})
    facts = {"label": label, "task": "binary", "metric": "auroc", "n": 1200, "entities": 1200, "folds": 2}
    facts |= {"protocol": "holdout", "positive": True}
    verdict = (f"Use it for {label}: ahead.", f"A second line about {label}.")
    fields = {"verdict": verdict, "tables": {"results": rows}, "facts": facts, "notes": ("A note.", f"About {label}.")}
    return Answer(**{**fields, **changes})
