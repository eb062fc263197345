"""The page contains everything it shows, loads nothing, and escapes all text from data."""

from __future__ import annotations

import html
import json
import re
import sys
from typing import Any

import numpy as np
import polars as pl
import pytest

from eventvec import reporting
from eventvec.errors import ConfigError
from eventvec.evaluation import score_features
from eventvec.evaluation.result import Result
from pages import HISTORY, HOSTILE, Reader, evaluation, points, scores


def whole_page(**changes: Any) -> str:
    parts: dict[str, Any] = {
        "facts": [("entities", "1,200")],
        "evaluations": [evaluation(), evaluation("numeric", label="age")],
        "tables": [reporting.Table("Nearest", ["who", "far"], [["a", 0.0], ["b", 1.5]], "By distance.")],
        "points": points(),
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
    assert set(read.data["figures"]) == {"chart-0", "chart-1", "training"}
    ids = {value for _, name, value in read.attributes if name == "id"}
    assert ids == {*read.data["figures"], "map", "colour", "data"}


def test_the_page_loads_nothing(read: Reader) -> None:
    links = [(tag, name, value) for tag, name, value in read.attributes if name in ("src", "href", "action", "srcset")]
    assert links == []
    assert not re.search(r"url\(|@import|https?:", "".join(read.styles))
    policy = next(value for _, name, value in read.attributes if name == "content" and value and "-src" in value)
    allowed = dict(part.split(maxsplit=1) for part in policy.split("; "))
    assert allowed.pop("default-src") == "'none'"
    assert set(" ".join(allowed.values()).split()) == {"'unsafe-inline'", "data:"}


def test_a_page_with_only_a_title_is_valid() -> None:
    read = Reader(reporting.page("A run", ""))
    assert read.data == {"figures": {}, "map": None}


def test_plotly_is_included_once() -> None:
    assert whole_page().count("plotly.js v") == 1


def test_hostile_text_is_escaped_everywhere() -> None:
    results = tuple(Result(HOSTILE, HOSTILE, 1.0, scores(0.5, 0.6), scores(0.5, 0.6)) for _ in range(1))
    hostile = evaluation(label=HOSTILE, positive=HOSTILE, results=results, differences=(), notes=(HOSTILE,))
    colours = pl.DataFrame({HOSTILE: [HOSTILE, "b", None]})
    text = reporting.page(
        HOSTILE,
        HOSTILE,
        facts=[(HOSTILE, HOSTILE)],
        evaluations=[hostile],
        tables=[reporting.Table(HOSTILE, [HOSTILE], [[HOSTILE]], HOSTILE)],
        points=reporting.Map(np.zeros((3, 2)), colours, pl.Series([HOSTILE] * 3), HOSTILE),
        history=HISTORY,
    )
    assert HOSTILE not in text
    assert "onerror=alert(1)>" not in text
    read = Reader(text)
    assert "img" not in {tag for tag, _, _ in read.attributes}
    assert sum(HOSTILE in part for part in read.texts) >= 12
    data = json.dumps(read.data)
    assert "<" not in data.replace("<b>", "").replace("</b>", "").replace("<br>", "")
    assert read.data["map"]["hover"][0] == html.escape(HOSTILE)
    assert read.data["map"]["colours"][0]["groups"][0]["name"] == html.escape(HOSTILE)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ConfigError, match=r"needs plotly: pip install 'eventvec\[viz\]'"):
        whole_page()
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    with pytest.raises(ConfigError, match=r"needs openTSNE: pip install 'eventvec\[viz\]'"):
        reporting.map2d(np.zeros((9, 2)))


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
    assert reporting.Table("", ["a", "b", "c"], [["x", 1, 2.0], ["y", 2, "?"]]).right == [False, True, False]
