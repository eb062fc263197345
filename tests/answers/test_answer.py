"""`Answer` and `Estimate`: what a terminal, a notebook, a frame and JSON show, and that no text is markup."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import pages
from eventvec.answers import Answer
from eventvec.answers.printing import cell, text
from eventvec.cli import terminal
from eventvec.statistics import Estimate

ROWS = [{"name": "a", "score": Estimate.around(0.8, 0.1), "n": 3}, {"name": "b", "score": None, "why": "no label"}]


def answered(**changes: object) -> Answer:
    """Return a small answer."""
    parts = {"verdict": ("Use it.",), "tables": {"rows": ROWS}, "notes": ("One note.",), "facts": {"label": "churn"}}
    return Answer(**{**parts, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("estimate", "shown"),
    [
        (Estimate(0.5), ".500"),
        (Estimate.around(-0.0004, 0.01, signed=True), "+.000 ± .010"),
        (Estimate(0.9, 0.7, 0.95), ".900 (.700 to .950)"),
        (Estimate.around(1.0, 0.25), "1.000 ± .250"),
        (Estimate.around(1234.5, 200.0), "1,234 ± 200"),
    ],
)
def test_an_estimate_is_written_with_its_interval(estimate: Estimate, shown: str) -> None:
    assert str(estimate) == shown


def test_a_wider_interval_can_make_a_difference_level() -> None:
    lead = Estimate.around(0.03, 0.02, signed=True)
    assert (lead.place, lead.widened(1.4).place, lead.widened(1.6).place) == ("ahead", "ahead", "level")
    assert Estimate.around(-0.03, 0.02).place == "behind"
    assert Estimate(0.03).place == "level"  # without an interval nothing is told


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0005, ".0005"),
        (1.0, "1"),
        (0.3, ".3"),
        (15.25, "15.25"),
        (-0.25, "-.25"),
        (1234.5, "1,234"),
        (math.nan, ""),
        (["last", "mean"], "last, mean"),
        ((0.5, 0.6), ""),
    ],
)
def test_a_cell_without_an_interval_keeps_its_digits(value: object, shown: str) -> None:
    assert cell(value) == shown


def test_a_terminal_shows_the_decision_and_everything_on_request() -> None:
    answer = answered()
    assert repr(answer) == "Use it."
    for part in ("Use it.", "label: churn", ".800 ± .100", "no label", "One note."):
        assert part in text(answer.full)
    assert "no label" in repr(answered(lists=True))


def test_the_command_line_says_how_to_see_everything(capsys: pytest.CaptureFixture[str]) -> None:
    for full, lists, hint in ((False, False, True), (True, False, False), (False, True, False)):
        terminal.decide(answered(lists=lists), json_=False, full=full)
        assert ("--full prints all tables and notes." in capsys.readouterr().out) == hint
    terminal.decide(answered(), json_=True, full=False)
    assert json.loads(capsys.readouterr().out)["verdict"] == "Use it."


def test_json_holds_what_is_not_finite_as_null_and_frames_the_ends_of_intervals() -> None:
    rows = [{"score": Estimate(0.5), "seconds": np.float32(2), "parts": {"a": math.inf}, "folds": (0.5, 0.6)}]
    answer = answered(tables={"rows": rows})
    values = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    assert values["rows"][0] == {
        "score": {"value": 0.5, "low": None, "high": None}, "seconds": 2.0, "parts": {"a": None}, "folds": [0.5, 0.6],
    }  # fmt: skip
    assert answer.frame().columns == ["score", "score_low", "score_high", "seconds", "folds"]
    assert answered().frame()["why"].to_list() == [None, "no label"]


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", pages.HOSTILE, "[bold]&amp;</pre>"])
def test_a_notebook_escapes_every_text(name: str) -> None:
    answer = answered(verdict=(name,), tables={"rows": [{name: name}]}, notes=(name,), facts={name: name}, lists=True)
    page = pages.Reader(answer._repr_html_())
    assert {tag for tag, _, _ in page.attributes} <= {"span", "pre"}
    assert all(attribute == "style" for _, attribute, _ in page.attributes)
    assert "".join(page.texts).count(name) == 4  # decision, heading, cell, note


def test_a_notebook_shows_an_answer_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`rich` shows at once what is printed in a notebook; the answer must come from `_repr_html_` only."""
    shown: list[object] = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *arguments: shown.append(arguments))
    assert "Use it." in repr(answered())
    assert "Use it." in answered()._repr_html_()
    assert shown == []
