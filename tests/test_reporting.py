"""The page holds everything it shows, escapes what comes from data, and draws the numbers it was given."""

from __future__ import annotations

import html
import json
import re
import sys
from html.parser import HTMLParser
from typing import Any

import numpy as np
import polars as pl
import pytest

from eventvec import reporting
from eventvec.errors import ConfigError, DataError
from eventvec.evaluation import Evaluation, evaluate
from eventvec.evaluation.result import Difference, Result, Scores

HOSTILE = "<img src=x onerror=alert(1)></script>\"'&"
VOID = {"meta", "link", "br", "img", "input", "hr"}
HISTORY = [
    {"epoch": 1, "loss": 30.0, "validation": 31.0, "seconds": 2.0, "events_per_second": 4000},
    {"epoch": 2, "loss": 20.0, "validation": 25.5, "seconds": 4.0, "events_per_second": 4100},
]


class Reader(HTMLParser):
    """Checks that elements nest, and keeps attributes, texts outside scripts, and the page's data."""

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
    """Return an evaluation of two features by two models at two shares of the labels, scores all different."""
    results, differences = [], []
    for i, (fraction, model) in enumerate([(1.0, "lightgbm"), (1.0, "knn"), (0.05, "lightgbm"), (0.05, "knn")]):
        ours, theirs = scores(embedding - i / 50, embedding - i / 50 + 0.02), scores(0.7 - i / 50, 0.74 - i / 50)
        results += [Result(n, model, fraction, s, s) for n, s in (("embedding", ours), ("aggregates", theirs))]
        differences.append(Difference("embedding", "aggregates", model, fraction, ours - theirs))
    given = {"label": "churn", "task": task, "n": 1200, "folds": 2, "protocol": "holdout", "positive": True}
    given |= {"results": tuple(results), "differences": tuple(differences), "notes": ("A note.",)}
    return Evaluation(**{**given, **changes})


def points(n: int = 12, **changes: Any) -> reporting.Map:
    colours = pl.DataFrame({"year": [float(i) for i in range(n - 1)] + [None], "kind": ["a", "b", None] * (n // 3)})
    given = {"points": np.arange(2.0 * n).reshape(n, 2), "colours": colours, "hover": pl.Series(map(str, range(n)))}
    return reporting.Map(**{**given, "caption": "Far is far.", **changes})


def whole_page(**changes: Any) -> str:
    given: dict[str, Any] = {
        "facts": [("entities", "1,200")],
        "evaluations": [evaluation(), evaluation("numeric", label="age")],
        "tables": [reporting.Table("Nearest", ["who", "far"], [["a", 0.0], ["b", 1.5]], "By distance.")],
        "points": points(),
        "history": HISTORY,
    }
    return reporting.page("A run", "What it found.", **{**given, **changes})


@pytest.fixture(scope="module")
def read() -> Reader:
    return Reader(whole_page())


# The page


def test_the_page_shows_all_that_it_was_given(read: Reader) -> None:
    text = " ".join(read.texts)
    for given in (
        "A run",
        "What it found.",
        "1,200",
        "churn",
        "age",
        "Nearest",
        "By distance.",
        "Far is far.",
        "A note.",
    ):
        assert given in text
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


def test_a_page_of_nothing_but_a_title_is_a_page() -> None:
    read = Reader(reporting.page("A run", ""))
    assert read.data == {"figures": {}, "map": None}


def test_plotly_is_there_once() -> None:
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
    drawn = json.dumps(read.data)
    assert "<" not in drawn.replace("<b>", "").replace("</b>", "").replace("<br>", "")
    assert read.data["map"]["hover"][0] == html.escape(HOSTILE)
    assert read.data["map"]["colours"][0]["groups"][0]["name"] == html.escape(HOSTILE)


def test_an_absent_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ConfigError, match=r"needs plotly: pip install 'eventvec\[viz\]'"):
        whole_page()
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    with pytest.raises(ConfigError, match=r"needs openTSNE: pip install 'eventvec\[viz\]'"):
        reporting.map2d(np.zeros((9, 2)))


# Charts


def test_charts_are_figures_that_plotly_takes(read: Reader) -> None:
    graphs = pytest.importorskip("plotly.graph_objects")
    for figure in read.data["figures"].values():
        made = graphs.Figure(figure)
        assert made.layout.xaxis.title.text


def test_dots_and_bars_are_means_and_intervals() -> None:
    e = evaluation()
    figure = reporting._scores_figure(e, ["embedding", "aggregates"])
    lines = figure["layout"]["yaxis"]["ticktext"]
    seen = {}
    for trace in figure["data"]:
        for x, y, bar in zip(trace["x"], trace["y"], trace["error_x"]["array"], strict=True):
            seen[trace["name"], lines[round(y)]] = (x, bar)
    names = {"lightgbm": "boosted trees", "knn": "nearest neighbours"}
    for r in e.results:
        line = f"<b>{names[r.model]}</b><br>{100 * r.fraction:g} % of labels"
        assert seen.pop((r.features, line)) == (r.main.mean, r.main.interval)
    assert seen == {}
    low, high = figure["layout"]["xaxis"]["range"]
    assert low < min(r.main.mean - r.main.interval for r in e.results)
    assert max(r.main.mean for r in e.results) < high


def test_scores_far_below_are_left_to_the_table_and_said_so() -> None:
    names = ("embedding", "aggregates")
    bad = [Result(name, "ridge", 0.05, scores(-9.0, -8.0), scores(1.0, 2.0)) for name in names]
    e = evaluation("numeric", results=(*evaluation().results, *bad))
    figure = reporting._scores_figure(e, names)
    assert min(x for trace in figure["data"] for x in trace["x"]) > 0
    assert figure["layout"]["xaxis"]["range"][0] > -0.5
    assert "below −0.250 are in the table only" in reporting._sentence(e)
    assert "−8.500" in " ".join(Reader(reporting.page("", "", evaluations=[e])).texts)
    only = evaluation("numeric", results=(bad[0],), differences=())
    assert reporting._scores_figure(only, ["embedding"])["data"][0]["x"] == [-8.5]


def test_the_sentence_names_the_best_model_of_each_features() -> None:
    said = reporting._sentence(evaluation())
    assert "The best of each with 100 % of the labels: embedding 0.810 (boosted trees), aggregates 0.720" in said
    assert "The best of each with 5 % of the labels: embedding 0.770 (boosted trees), aggregates 0.680" in said


def test_differences_whose_interval_leaves_out_zero_are_marked() -> None:
    sure = Difference("embedding", "aggregates", "lightgbm", 1.0, scores(0.10, 0.101))
    unsure = Difference("embedding", "aggregates", "knn", 1.0, scores(0.10, -0.09))
    first, second, *_ = reporting._section(evaluation(differences=(sure, unsure)), "c")["rows"]
    assert first["differences"] == [("+0.101 ± 0.006", True)]
    assert second["differences"][0][1] is False


def test_a_real_evaluation_is_drawn() -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(3, size=90)
    features = {"embedding": rng.normal(size=(90, 2)) + label[:, None], "aggregates": rng.normal(size=(90, 2))}
    found = evaluate(features, np.array(["x", "y", "z"])[label], models=["knn"], label="kind")
    read = Reader(reporting.page("", "", evaluations=[found]))
    assert [trace["name"] for trace in read.data["figures"]["chart-0"]["data"]] == ["embedding", "aggregates", "both"]


def test_the_training_curve_has_validation_where_there_is_some() -> None:
    figure = reporting._training_figure(HISTORY)
    assert [trace["y"] for trace in figure["data"]] == [[30.0, 20.0], [31.0, 25.5]]
    assert "from 30 in epoch 1 to 20 in epoch 2" in reporting._training_sentence(HISTORY)
    assert "lowest is 25.5" in reporting._training_sentence(HISTORY)
    without = [{**record, "validation": None} for record in HISTORY]
    assert len(reporting._training_figure(without)["data"]) == 1
    assert "held-out" not in reporting._training_sentence(without)


def test_columns_of_numbers_are_set_to_the_right() -> None:
    assert reporting.Table("", ["a", "b", "c"], [["x", 1, 2.0], ["y", 2, "?"]]).right == [False, True, False]


# The map


@pytest.mark.parametrize("cells", [[True, None, False, True], ["b", "a", None, "a"], ["a"] * 3 + ["b"] * 2 + [None]])
def test_groups_are_those_of_a_slow_loop(cells: list[Any]) -> None:
    expected: dict[str, list[int]] = {}
    for i, cell in enumerate(cells):
        name = {True: "yes", False: "no", None: "?"}.get(cell, cell)
        expected.setdefault(name, []).append(i)
    found = reporting._colouring(pl.Series("c", cells))
    assert found["missing"] == expected.pop("?", [])
    assert {group["name"]: group["rows"] for group in found["groups"]} == expected
    sizes = [len(group["rows"]) for group in found["groups"]]
    assert sizes == sorted(sizes, reverse=True)


def test_rare_groups_are_drawn_as_one() -> None:
    cells = [f"g{i:02}" for i in range(20) for _ in range(20 - i)]
    found = reporting._colouring(pl.Series("c", cells))["groups"]
    assert [group["name"] for group in found] == [*(f"g{i:02}" for i in range(7)), "13 others"]
    assert sorted(row for group in found for row in group["rows"]) == list(range(len(cells)))
    assert len({group["colour"] for group in found}) == 8


def test_numbers_keep_their_values_and_lose_the_missing() -> None:
    found = reporting._colouring(pl.Series("c", [float("nan"), *map(float, range(101)), None]))
    assert found["missing"] == [0, 102]
    assert found["rows"] == list(range(1, 102))
    assert found["values"] == list(map(float, range(101)))
    assert found["ends"] == [2.0, 98.0]


def test_a_map_of_other_length_is_refused() -> None:
    with pytest.raises(DataError, match="a map of 12 points got 12 rows of 2 labels and 3 texts"):
        points(hover=pl.Series(["a", "b", "c"]))
    with pytest.raises(DataError, match="rows of 0 labels"):
        points(colours=pl.DataFrame())


def test_the_map_keeps_neighbours_together_and_is_the_same_twice() -> None:
    rng = np.random.default_rng(0)
    blob = np.repeat(np.arange(3), 40)
    z = rng.normal(size=(120, 16)) + 8 * rng.normal(size=(3, 16))[blob]
    xy = reporting.map2d(z, seed=3)
    distance = np.linalg.norm(xy[:, None] - xy[None], axis=2) + np.diag(np.full(120, np.inf))
    assert (blob[distance.argmin(1)] == blob).all()
    assert np.array_equal(xy, reporting.map2d(z, seed=3))
    assert reporting.map2d(z[:4]).shape == (4, 2)
