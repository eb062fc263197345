"""The page contains everything it shows, loads nothing, and escapes all text from data."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import numpy as np
import polars as pl
import pytest

from eventvec import reporting
from eventvec.dataset import Dataset
from eventvec.errors import ConfigError
from eventvec.evaluation import score_features
from eventvec.evaluation.result import Result
from eventvec.reporting.charts import PALETTE
from eventvec.reporting.neighbours import neighbours_of
from eventvec.reporting.overview import overview_of
from eventvec.tables import Embeddings
from eventvec.tables import read as read_table
from pages import HISTORY, HOSTILE, Reader, evaluation, points, scores


def data() -> Dataset:
    """Return the events of twelve cards, four days each."""
    table = pl.DataFrame({"card": [i % 12 for i in range(48)], "day": range(48), "paid": [float(i) for i in range(48)]})
    return read_table(table, key="card", time="day", numeric=["paid"])


def nearby() -> reporting.Nearby:
    z = Embeddings.of(data(), np.random.default_rng(0).normal(size=(12, 3)))
    return reporting.Nearby(neighbours_of(z, data()), reporting.PageTable("Typical entities", ["entity"], [["3"]]))


def whole_page(**changes: Any) -> str:
    parts: dict[str, Any] = {
        "facts": [("entities", "1,200")],
        "evaluations": [evaluation(), evaluation("numeric", label="age")],
        "tables": [reporting.PageTable("Nearest", ["who", "far"], [["a", 0.0], ["b", 1.5]], "By distance.")],
        "points": points(),
        "drivers": [("amount", -0.05, 0.02), ("the last 30 days", -0.01, 0.02)],
        "nearby": nearby(),
        "overview": overview_of(data()),
        "history": HISTORY,
    }
    return reporting.page("A run", "A lead.", **{**parts, **changes})


@pytest.fixture(scope="module")
def read() -> Reader:
    return Reader(whole_page())


def test_the_page_shows_every_part(read: Reader) -> None:
    text = " ".join(read.texts)
    for part in ("A run", "A lead.", "1,200", "churn", "age", "Nearest", "By distance.", "A caption.", "A note."):
        assert part in text
    assert "0.810 ± 0.127" in text  # mean of .80 and .82; t(0.975, 1 degree) 12.706 times .01
    figures = {"chart-0", "chart-1", "shares-0", "shares-1", "drivers", "training", "data-lengths", "data-rates"}
    assert set(read.data["figures"]) == figures
    ids = [value for _, name, value in read.attributes if name == "id"]
    assert len(set(ids)) == len(ids)
    assert {*figures, "map", "colour", "timelines", "data"} <= set(ids)
    anchors = {str(value)[1:] for tag, name, value in read.attributes if (tag, name) == ("a", "href")}
    assert anchors == {"results", "what-drives", "the-map", "nearest", "the-training", "the-data", "privacy"}
    assert anchors <= set(ids)


def test_the_page_loads_nothing(read: Reader) -> None:
    loading = [(tag, value) for tag, name, value in read.attributes if name in ("src", "href", "action", "srcset")]
    assert [(tag, value) for tag, value in loading if tag != "a" or not str(value).startswith("#")] == []
    assert not re.search(r"url\(|@import|https?:", "".join(read.styles))
    policy = next(value for _, name, value in read.attributes if name == "content" and value and "-src" in value)
    allowed = dict(part.split(maxsplit=1) for part in policy.split("; "))
    assert allowed.pop("default-src") == "'none'"
    assert set(" ".join(allowed.values()).split()) == {"'unsafe-inline'", "data:"}


def test_a_page_with_only_a_title_is_valid() -> None:
    read = Reader(reporting.page("A run", ""))
    assert read.data == {"figures": {}, "map": None, "neighbours": None, "palette": list(PALETTE)}


def test_plotly_is_included_once() -> None:
    assert whole_page().count("plotly.js v") == 1


def test_hostile_text_is_escaped_everywhere() -> None:
    results = tuple(Result(HOSTILE, HOSTILE, 1.0, scores(0.5, 0.6), scores(0.5, 0.6)) for _ in range(1))
    hostile = evaluation(label=HOSTILE, positive=HOSTILE, results=results, differences=(), notes=(HOSTILE,))
    columns = pl.DataFrame({HOSTILE: [HOSTILE, "b", None]})
    text = reporting.page(
        HOSTILE,
        HOSTILE,
        facts=[(HOSTILE, HOSTILE)],
        evaluations=[hostile],
        tables=[reporting.PageTable(HOSTILE, [HOSTILE], [[HOSTILE]], HOSTILE)],
        drivers=[(HOSTILE, 0.1, 0.2)],
        points=reporting.Map(np.zeros((3, 2)), columns, pl.Series(HOSTILE, [HOSTILE] * 3), HOSTILE),
        history=HISTORY,
        notes=[HOSTILE],
    )
    assert HOSTILE not in text
    assert "onerror=alert(1)>" not in text
    read = Reader(text)
    assert "img" not in {tag for tag, _, _ in read.attributes}
    assert sum(HOSTILE in part for part in read.texts) >= 12
    figures = json.dumps(read.data["figures"])  # plotly interprets tags; keys and values are escaped by the scripts
    assert "<" not in figures.replace("<b>", "").replace("</b>", "").replace("<br>", "").replace("<extra></extra>", "")
    assert read.data["map"]["keys"][0] == read.data["map"]["columns"][0]["names"][0] == HOSTILE


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ConfigError, match=r"needs plotly: pip install 'eventvec\[viz\]'"):
        whole_page()
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    with pytest.raises(ConfigError, match=r"needs openTSNE: pip install 'eventvec\[viz\]'"):
        reporting.map2d(np.eye(9))


def test_plotly_accepts_the_charts(read: Reader) -> None:
    graphs = pytest.importorskip("plotly.graph_objects")
    for figure in read.data["figures"].values():
        assert graphs.Figure(figure).layout.xaxis.title.text


def test_a_real_evaluation_is_drawn() -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(3, size=90)
    features = {"embedding": rng.normal(size=(90, 2)) + label[:, None], "aggregates": rng.normal(size=(90, 2))}
    result = score_features(features, np.array(["x", "y", "z"])[label], models=["knn"], label="kind")
    read = Reader(reporting.page("", "", evaluations=[result]))
    assert [trace["name"] for trace in read.data["figures"]["chart-0"]["data"]] == ["embedding", "aggregates", "both"]


def test_columns_of_numbers_are_aligned_to_the_right() -> None:
    assert reporting.PageTable("", ["a", "b", "c"], [["x", 1, 2.0], ["y", 2, "?"]]).right == [False, True, False]
