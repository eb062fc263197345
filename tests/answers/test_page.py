"""A page contains everything it shows, loads nothing, escapes all text from data, and is a file of its own."""

from __future__ import annotations

import base64
import hashlib
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from eventvec.answers import Answer, Chart
from eventvec.answers.charts import Series, dots
from eventvec.answers.page import LONG, Section, Widget, page, write
from eventvec.errors import ConfigError, printable
from eventvec.statistics import Estimate
from pages import HOSTILE, Reader

ROWS = [{"who": "a", "far": 0.5, "score": Estimate.around(0.8, 0.02), "parts": [1, 2]}, {"who": "b", "far": 1234.5}]


def chart(text: str = "mine") -> Chart:
    draw = Series([Estimate.around(0.8, 0.02)] * 2)
    return Chart(text, text, lambda axes: dots(axes, [text, "x"], draw, across=text))


def whole(**changes: Any) -> str:
    widget = Widget("<p id='w'></p>", ".w { color: red; }", "document.title = data.name;", {"name": "</script>"})
    sections = [
        Section("First", ["A paragraph."], [chart()], widget, {"The rows": ROWS}),
        Section("Second", notes=["A note."], tables={"Long": ROWS * LONG}),
        Section("Third", ["In short.", "At length."], [chart()], folded=True),
        Section("Nothing"),
    ]
    fields: dict[str, Any] = {"facts": {"some_entities": 1200, "none": None}, "sections": sections}
    return page("A title", ("The decision.", "A second line."), "A lead.", **{**fields, **changes})


@pytest.fixture(scope="module")
def read() -> Reader:
    return Reader(whole())


def test_the_decision_comes_first_and_every_part_is_there(read: Reader) -> None:
    text = " ".join(" ".join(read.texts).split())
    parts = ("A title The decision. A second line. A lead. some entities 1,200 First", "A paragraph.")
    for part in (*parts, "A note.", "Third · In short. At length.", "The rows (2 rows)", ".800 ± .020", "1,234"):
        assert part in text, part
    assert "Nothing" not in text
    assert "none" not in text
    ids = [value for _, name, value in read.attributes if name == "id"]
    assert len(set(ids)) == len(ids)
    assert read.data == {"name": "</script>"}
    assert [tag for tag, name, _ in read.attributes if name == "viewbox"] == ["svg"] * 4  # two charts for two widths


def test_a_page_loads_nothing_and_runs_its_own_script_alone(read: Reader) -> None:
    assert not [value for _, name, value in read.attributes if name in ("src", "href", "action", "srcset")]
    linked = [value for _, name, value in read.attributes if name == "xlink:href"]
    assert all(str(value).startswith("#") for value in linked)
    assert not re.search(r"url\(|@import|https?:", "".join(read.styles))
    (script,) = read.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(value for _, name, value in read.attributes if name == "content" and value and "-src" in value)
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def test_a_page_without_a_widget_has_no_script() -> None:
    text = page("A title", ["A line."])
    read = Reader(text)
    assert "<script" not in text
    assert "default-src 'none'; style-src 'unsafe-inline'" in [value for _, _, value in read.attributes]


def test_numbers_are_to_the_right_and_lists_are_left_out(read: Reader) -> None:
    text = whole(sections=[Section(tables={"": ROWS})])
    heads = re.findall(r'<th scope="col"( class="number")?>(\w+)', text)
    assert heads == [("", "who"), (' class="number"', "far"), (' class="number"', "score")]


def test_long_tables_and_those_below_charts_are_folded() -> None:
    assert "<details>" not in page("", (), sections=[Section(tables={"t": ROWS})])
    assert "<details>" in page("", (), sections=[Section(tables={"t": ROWS * LONG})])
    assert "<details>" in page("", (), sections=[Section(charts=[chart()], tables={"t": ROWS})])


def test_hostile_text_is_escaped_everywhere() -> None:
    rows = [{HOSTILE: HOSTILE, "n": 1}]
    section = Section(HOSTILE, [HOSTILE] * 2, [chart(HOSTILE)], None, {HOSTILE: rows}, [HOSTILE])
    folded = Section(HOSTILE, [HOSTILE] * 2, tables={HOSTILE: rows * 2 * LONG}, folded=True)
    text = page(HOSTILE, [HOSTILE], HOSTILE, {HOSTILE: HOSTILE}, [section, folded])
    assert HOSTILE not in text
    assert "onerror=alert(1)>" not in text
    read = Reader(text)
    assert not {"img", "script"} & {tag for tag, _, _ in read.attributes}
    assert sum(HOSTILE in part for part in read.texts) >= 11


def test_no_control_character_stands_in_a_page() -> None:
    name = "a\x1b[31m\x07\x9b\u202e"
    section = Section(name, [name], [chart(name)], None, {name: [{name: name}]}, [name])
    text = page(name, [name], name, {name: name}, [section])
    assert not {letter for letter in name if not letter.isprintable()} & {*text}
    assert sum(printable(name) in part for part in Reader(text).texts) >= 10


def test_an_answer_is_a_page_that_is_the_same_each_time() -> None:
    answer = Answer(("Use it.",), {"results": ROWS}, ("A note.",), (chart("scores"),), {"label": "churn"}, title="T")
    text = answer.html
    assert text == answer.html
    shown = " ".join(" ".join(Reader(text).texts).split())
    for part in ("T Use it. label churn scores", "Results who far score", "Notes A note."):
        assert part in shown, part


def test_a_file_is_whole_private_and_replaces_nothing_of_others(tmp_path: Path) -> None:
    answer, mine = Answer(("Use it.",), {"results": ROWS}), tmp_path / "mine.html"
    path = tmp_path / "new" / "page.html"
    answer.write(path)
    answer.write(path)  # a page that eventvec wrote is replaced
    assert path.read_text() == answer.html
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["page.html"]
    mine.write_text("<p>mine</p>")
    with pytest.raises(ConfigError, match="was not written by eventvec"):
        answer.write(mine)
    with pytest.raises(ConfigError, match="is a folder"):
        write("", tmp_path)
    assert mine.read_text() == "<p>mine</p>"
    answer.write(mine, overwrite=True)
    assert mine.read_text() == answer.html


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ConfigError, match=r"needs jinja2: pip install 'eventvec\[viz\]'"):
        page("", ())
