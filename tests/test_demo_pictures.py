"""The picture of the README: every point and every score of a page of the demo is drawn, at its place."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import polars as pl
import pytest

from eventvec import reporting
from pages import evaluation, points

COLUMNS = pl.DataFrame({"built in 2002 or later": ["yes", "no", None] * 4})
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    path = Path(__file__).parents[1] / "scripts" / "pictures.py"
    spec = importlib.util.spec_from_file_location("pictures", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page() -> str:
    """Return a page with twelve points, and an evaluation in which the embedding has .81 under boosted trees."""
    return reporting.page("flights", "A page.", evaluations=[evaluation()], points=points(12, columns=COLUMNS))


def test_the_picture_shows_each_point_and_each_score(pictures: ModuleType) -> None:
    root = ElementTree.fromstring(pictures.picture(pictures.page_data(page())))
    dots = [len(re.findall("M", path.get("d", ""))) for path in root.iter(f"{SVG}path") if path.get("stroke-linecap")]
    assert sum(dots) == 12
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {"embedding", "aggregates", "boosted trees", "5 % of labels", "100 % of labels"} <= set(texts)
    assert "nearest neighbours" not in texts  # two models are drawn, so that the picture can be read in a minute
    scores = [circle for circle in root.iter(f"{SVG}circle") if circle.get("r") == "4.5"]
    assert len(scores) == 4  # two sets of features, one of the models, two shares of labels


def test_scores_are_at_their_places_on_the_axis(pictures: ModuleType) -> None:
    page = reporting.page(
        "flights", "A page.", evaluations=[evaluation(embedding=0.8)], points=points(12, columns=COLUMNS)
    )
    data = pictures.page_data(page)
    low, high = pictures.axis_limits(data["figures"]["chart-0"])
    root = ElementTree.fromstring(pictures.picture(data))
    first = next(circle for circle in root.iter(f"{SVG}circle") if circle.get("r") == "4.5")
    expected = pictures.AXIS_LEFT + pictures.AXIS_WIDTH * (0.81 - low) / (high - low)  # the mean of .80 and .82
    assert float(first.get("cx", "nan")) == pytest.approx(expected, abs=0.06)


def test_a_page_without_numbers_is_refused(pictures: ModuleType) -> None:
    with pytest.raises(SystemExit, match="holds no numbers of charts"):
        pictures.page_data("<html></html>")


def test_the_picture_in_the_tree_is_a_drawing_of_all_aircraft() -> None:
    path = Path(__file__).parents[1] / "docs" / "pictures" / "demo.svg"
    root = ElementTree.parse(path).getroot()
    dots = [len(re.findall("M", each.get("d", ""))) for each in root.iter(f"{SVG}path") if each.get("stroke-linecap")]
    assert sum(dots) == 4043
