"""The picture of the README: every point of a page of the demo is drawn, beside the chart of its first label."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from eventvec.answers.page import Section, Widget, page
from eventvec.evaluation.evaluation_charts import charts
from eventvec.reporting.maps import map_data
from pages import evaluation

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


def points(path: ElementTree.Element) -> int:
    """Return the number of points of a group of the map."""
    return len(re.findall("M", path.get("d", ""))) if path.get("stroke-linecap") else 0


def test_the_picture_shows_each_point_and_the_chart(pictures: ModuleType) -> None:
    e, columns = evaluation(), pl.DataFrame({"built in 2002 or later": ["yes", "no", None] * 4})
    data = map_data(np.arange(24.0).reshape(12, 2), columns, pl.Series("key", [str(i) for i in range(12)]))
    sections = [
        Section("churn", charts=charts(e.rows, e.facts)),
        Section("", (), (), Widget("", "", "", {"map": data})),
    ]
    root = ElementTree.fromstring(pictures.picture(page("flights", ["A page."], sections=sections)))
    assert sum(points(path) for path in root.iter(f"{SVG}path")) == 12
    texts = ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]
    expected = {"embedding", "aggregates", "5 % of the labels", "built in 2002 or later: yes", "not known"}
    assert expected | {"churn: AUROC; bars are 95 % intervals"} <= set(texts)


def test_a_page_without_numbers_is_refused(pictures: ModuleType) -> None:
    for page_ in ("<html></html>", page("flights", ["A page."])):
        with pytest.raises(SystemExit, match="holds no map"):
            pictures.picture(page_)


def test_the_picture_in_the_tree_is_a_drawing_of_all_aircraft() -> None:
    path = Path(__file__).parents[1] / "docs" / "pictures" / "demo.svg"
    assert sum(points(each) for each in ElementTree.parse(path).getroot().iter(f"{SVG}path")) == 4043
