"""Charts draw each number at its place, look the same wherever they are drawn, and are part of a page as text."""

from __future__ import annotations

import re
import sys
import warnings
from datetime import datetime
from typing import Any
from xml.etree import ElementTree

import matplotlib
import pytest
from matplotlib.axes import Axes

from eventvec.answers.charts import (
    INK,
    KNOWN,
    NARROW,
    WIDE,
    Chart,
    Look,
    Series,
    bars,
    columns,
    curves,
    dots,
    histogram,
    level,
    looks,
)
from eventvec.errors import ConfigError
from eventvec.statistics import Estimate
from pages import HOSTILE, axes_of

NAMES = ["embedding", "handcrafted", "mine"]
SCORES = [Estimate.around(0.8, 0.02), None, Estimate(-0.6, -0.7, -0.55)]


def chart(title: str = "Scores", names: list[str] = NAMES) -> Chart:
    return Chart(title, "", lambda axes: dots(axes, names, Series(SCORES), across="AUROC", reference=0.5))


def marks(axes: Axes) -> list[tuple[float, float, tuple[float, ...]]]:
    """Return the place of each dot, and the ends of its interval."""
    out = []
    for dot, _, lines in axes.containers:  # type: ignore[misc]
        ends = [end for line in lines for segment in line.get_segments() for end in segment.reshape(-1).tolist()]
        out.append((*dot.get_xydata()[0].tolist(), tuple(ends)))
    return out


def test_dots_and_intervals_are_at_their_places() -> None:
    axes = axes_of(chart())
    first, last = marks(axes)
    assert first == (0.8, 0.0, pytest.approx((0.78, 0.0, 0.82, 0.0)))
    assert last == (-0.6, 2.0, pytest.approx((-0.7, 2.0, -0.55, 2.0)))
    assert [label.get_text() for label in axes.get_yticklabels()] == NAMES
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first name is on top
    assert [text.get_text() for text in axes.texts] == [".800 ± .020", "", "−.600 (−.700 to −.550)"]


def test_series_are_beside_one_another_unless_they_share_a_line() -> None:
    def places(apart: bool) -> list[float]:
        series = [Series([0.1], "a"), Series([Estimate(0.2)], "b", pale=True)]
        return [
            y
            for _, y, _ in marks(
                axes_of(Chart("", "", lambda axes: dots(axes, ["x"], *series, across="", apart=apart)))
            )
        ]

    assert places(True) == pytest.approx([-0.11, 0.11])
    assert places(False) == [0, 0]


def test_bars_of_all_kinds_have_their_lengths() -> None:
    lengths = [Estimate.around(-0.2, 0.1), 0.3]
    lying = axes_of(Chart("", "", lambda axes: bars(axes, ["a", "b"], Series(lengths), across="")))
    assert [round(bar.get_width(), 9) for bar in lying.patches] == [-0.2, 0.3]
    old, new = Series([0.25, 0.75], "old"), Series([0.5, None], "new")
    upright = axes_of(Chart("", "", lambda axes: columns(axes, ["a", "b"], old, new, up="share")))
    assert [bar.get_height() for bar in upright.patches] == [0.25, 0.75, 0.5]
    assert upright.figure.legends[0].get_texts()[1].get_text() == "new"
    edges = [datetime(2024, 1, 1), datetime(2024, 2, 1), datetime(2024, 3, 1)]
    dated = axes_of(Chart("", "", lambda axes: histogram(axes, edges, [3, 5], across="", up="")))
    assert [(bar.get_height(), bar.get_width()) for bar in dated.patches] == [(3, 31), (5, 29)]


def test_curves_join_the_numbers_that_are_there() -> None:
    def draw(axes: Axes) -> None:
        curves(axes, [5, 25, 100], Series([0.1, None, 0.3]), across="", up="", log=True)
        level(axes, 0.2, "x" * 90, right=True)

    axes = axes_of(Chart("", "", draw))
    assert axes.lines[0].get_xydata().tolist() == [[5, 0.1], [100, 0.3]]  # type: ignore[union-attr]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["5", "25", "100"]
    assert len(axes.texts[0].get_text()) == 40


def test_each_set_of_features_has_one_look() -> None:
    names = [*KNOWN, *(f"mine {i}" for i in range(60))]
    found = looks(names)
    assert len(set(found.values())) == len(names)
    assert looks(["mine 0", "embedding", "mine 0"]) == {"mine 0": found["mine 0"], "embedding": KNOWN["embedding"]}
    assert not {look.marker for look in KNOWN.values()} & {found[name].marker for name in names[len(KNOWN) :]}


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_an_svg_is_an_element_of_the_page(width: int) -> None:
    text = chart(HOSTILE, ["$a^2$", HOSTILE, "日本語"]).svg(width, "c1")
    root = ElementTree.fromstring(text)
    assert root.get("viewBox", "").split()[2] == str(width)
    assert root.get("aria-label") == HOSTILE
    texts = ["".join(each.itertext()) for each in root.iter("text")]
    assert {"$a^2$", "日本語", ".800 ± .020"} <= set(texts)
    assert "<img" not in text
    assert "onerror" in " ".join(texts).replace("\n", "")
    assert INK not in text
    assert "currentColor" in text
    assert not re.search("<!--|<style|<metadata|<script|DejaVu", text)
    names = re.findall(r' id="([^"]*)"', text)
    assert names
    assert all(name.startswith("c1-") for name in names)
    assert {name for each in re.findall(r'url\(#([^)]*)\)|href="#([^"]*)"', text) for name in each if name} == set(
        names
    )


def test_an_svg_is_the_same_whatever_the_user_has_set() -> None:
    before, plain = dict(matplotlib.rcParams), chart().svg(WIDE, "a")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        assert chart().svg(WIDE, "a") == plain
    assert dict(matplotlib.rcParams) == before


def test_glyphs_that_the_browser_has_are_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chart(names=["日本", "語", "\x1b[31m\n"]).svg(WIDE, "a")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"needs matplotlib: pip install 'eventvec\[viz\]'"):
        chart().svg(WIDE, "a")


def test_a_series_may_have_a_look_for_each_number() -> None:
    series: Any = Series(SCORES, look=[Look("#111111"), Look("#222222"), Look("#333333", "s")])
    text = Chart("", "", lambda axes: dots(axes, NAMES, series, across="")).svg(WIDE, "a")
    assert ("#111111" in text, "#222222" in text, "#333333" in text) == (True, False, True)
