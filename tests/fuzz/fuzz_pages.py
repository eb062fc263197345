"""Pages about tables whose names, keys and codes are HTML, scripts and templates: none of it becomes an element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import fuzz_tables
import plotly.offline
import polars as pl
from draws import chance
from outcomes import ACCEPTED, attempt, require, way

import eventvec as ev
import pages
from eventvec import reporting
from eventvec.auditing import audit_page
from eventvec.comparing import compare_page
from eventvec.diagnosis import html_page
from eventvec.shift import drift_page

PAYLOADS = (
    "<evil onevil=1>", '"><evil onevil=1>', "' onevil='1", '" onevil="1', " onevil=1 ", "</script><evil>",
    "&lt;evil>", "<!--<script><evil>", "-->", "</title><evil>", "</style><evil>", "{{ evil }}", "{% evil %}",
    "]]><evil>", "&#60;evil>", "</td></tr></table><evil>", "\u2028<evil>", "<evil",
    "<a href='javascript:evil()'>x</a>", "\\u003cevil\\u003e", "${evil}", "%{evil}", "<b>evil",
    "</textarea></noscript><evil>", "<svg/onevil=1>", "<EVIL/>",
)  # fmt: skip
ENTITIES, EVENTS = 30, 5


class Page(pages.Reader):
    """The elements of a page, which must nest, none of which a payload made."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        require("evil" not in tag, "a payload is an element", tag)
        for name, value in attrs:
            require("evil" not in name and not name.startswith("on"), "a payload is an attribute", f"{tag} {name}")
            safe = name not in ("href", "src") or str(value).startswith("#")
            require(safe, "a link leads out of the page", f"{tag} {name} {value}")

    def handle_endtag(self, tag: str) -> None:
        require(bool(self.open) and self.open[-1][0] == tag, "elements do not nest", tag)
        super().handle_endtag(tag)

    def handle_comment(self, data: str) -> None:
        require(False, "a page has a comment", data)


def check_page(text: str) -> None:
    """Check that a page is whole, and that no payload is an element, an attribute, a script or markup of a chart."""
    require(text.rstrip().endswith("</html>"), "the page is not whole", text[-80:])
    page = Page(text)
    scripts = [tag for tag, name, _ in page.attributes if tag == "script" and name == "id"]
    require(text.count("<script") - text.count("<script><evil") == 3 and len(scripts) == 1, "a page has other scripts")
    for shown in _texts(page.data["figures"]):  # plotly reads some elements in its texts
        require("<evil" not in shown.lower() and "<a " not in shown, "a payload is markup of a chart", shown)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def play(rng: Random, folder: Path) -> str:
    """Play one case and return its outcome."""
    events, labels, roles = _tables(rng)
    name = rng.choices(list(PAGES), [4, 4, 3, 2, 1])[0]
    keys = events[roles["key"]].unique().to_list()
    with way(name), mock.patch.object(plotly.offline, "get_plotlyjs", return_value="plotly"):
        check_page(attempt(keys, PAGES[name], rng, events, labels, roles, folder))
    return ACCEPTED


def _hostile(rng: Random) -> str:
    """Return a text that is different each time, so that it can name columns and classes."""
    return f"{rng.choice(PAYLOADS)}{rng.randrange(10**6)}{rng.choice(('', '', rng.choice(PAYLOADS)))}"


def _tables(rng: Random) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, str]]:
    """Return events and labels with hostile names and values, and the names of the key and the time."""
    key, time, code, other = (_hostile(rng) if chance(rng, 0.7) else f"column {place}" for place in range(4))
    codes = [_hostile(rng) for _ in range(rng.choice((2, 5)))]
    kind = rng.choice((pl.Int64, pl.Datetime("us")))
    ids = [f"{_hostile(rng)} {row}" for row in range(ENTITIES)]
    rows = ENTITIES * EVENTS
    events = pl.DataFrame(
        {
            key: [each for each in ids for _ in range(EVENTS)],
            time: pl.Series(rng.sample(range(10 * rows), rows), dtype=pl.Int64).cast(kind) * 10**9
            if kind == pl.Int64
            else pl.Series([10**9 * step for step in rng.sample(range(10 * rows), rows)]).cast(kind),
            code: rng.choices(codes, k=rows),
            other: [rng.gauss(0, 20) for _ in range(rows)],
        }
    )
    classes = [_hostile(rng), _hostile(rng)]
    labels = pl.DataFrame(
        {
            key: ids,
            _hostile(rng): [classes[row % 2] for row in range(ENTITIES)],
            _hostile(rng): [rng.gauss(0, 1) for _ in range(ENTITIES)],
        }
    )
    return events, labels, {"key": key, "time": time}


def _report(rng: Random, events: pl.DataFrame, labels: pl.DataFrame, roles: dict[str, str], _: Path) -> str:
    """Return the page about embeddings, with a map and perhaps an evaluation."""
    data = ev.read(events, **roles, fitting=ev.Fitting(min_count=1))
    z = ev.embed(fuzz_tables.small_encoder(data.schema), data)
    options: dict[str, Any] = {"labels": labels} if chance(rng, 0.7) else {}
    if options and chance(rng, 0.5):
        options |= {"label": labels.columns[1], "models": ["knn"], "folds": 2}
    if chance(rng, 0.5):
        options["title"], options["lead"] = _hostile(rng), _hostile(rng)
    if chance(rng, 0.3):
        options["tables"] = [reporting.Table(_hostile(rng), [_hostile(rng)], [[_hostile(rng)]], _hostile(rng))]
    return ev.report(None, data, embeddings=z, **options).html


def _drift(rng: Random, events: pl.DataFrame, _: Any, roles: dict[str, str], __: Path) -> str:
    """Return the page about the differences of two halves of the events."""
    later = events.with_columns(pl.lit(_hostile(rng)).alias(events.columns[2])) if chance(rng, 0.5) else events
    drift = ev.drift(events, later, **roles, permutations=199, fitting=ev.Fitting(min_count=1))
    return drift_page.page(drift, _hostile(rng))


def _diagnose(rng: Random, events: pl.DataFrame, _: Any, roles: dict[str, str], __: Path) -> str:
    return html_page.page(ev.diagnose(ev.read(events, **roles)), _hostile(rng))


def _run(events: pl.DataFrame, roles: dict[str, str]) -> ev.Run:
    data = ev.read(events, **roles, fitting=ev.Fitting(min_count=1), holdout=0.3)
    return ev.fit({"method": {"name": "ocp"}, "encoder": {"dim": 4}}, data, epochs=1)


def _audit(rng: Random, events: pl.DataFrame, labels: pl.DataFrame, roles: dict[str, str], _: Path) -> str:
    """Return the page of an audit of a run."""
    audit = ev.audit(_run(events, roles), events, labels, models=["knn"], folds=2)
    return audit_page.page(audit, _hostile(rng))


def _compare(rng: Random, events: pl.DataFrame, labels: pl.DataFrame, roles: dict[str, str], folder: Path) -> str:
    """Return the page of a comparison of two arms with hostile names."""
    data = ev.read(events, **roles)
    arms = {_hostile(rng): {"method": {"name": name}, "encoder": {"dim": 4}} for name in ("ocp", "rtd")}
    options: dict[str, Any] = {"epochs": 1, "folds": 2, "models": ["knn"], "out": folder / "compared"}
    comparison = ev.compare(data, labels, labels.columns[1], methods=arms, **options)
    return compare_page.page(comparison, _hostile(rng))


PAGES: dict[str, Callable[..., str]] = {
    "report": _report, "drift": _drift, "diagnose": _diagnose, "audit": _audit, "compare": _compare,
}  # fmt: skip
