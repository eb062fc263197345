"""The whole diagnosis: verdicts, files, the page, the command and its refusals."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

import eventvec as ev
from commands import invoke
from eventvec.diagnosis import Diagnosis, Verdict, page
from eventvec.diagnosis import verdicts as verdicts_module
from eventvec.diagnosis.html_page import order_figure
from eventvec.diagnosis.verdicts import TRIED
from eventvec.reporting.charts import PALETTE
from experiments import data
from pages import HOSTILE, Reader

ROOT = Path(__file__).parents[2]


def events(n: int = 150, t: int = 24, seed: int = 0) -> pl.DataFrame:
    """Return shoppers with habits, a till number that counts up, and prices that rise for each shopper."""
    draw = np.random.default_rng(seed)
    length = np.minimum((t * (1 - draw.random(n)) ** -0.6).astype(int), 20 * t)
    shopper = np.repeat(np.arange(n), length)
    taste = draw.dirichlet(np.full(5, 0.4), n)
    number = np.concatenate([np.arange(k) for k in length])
    return pl.DataFrame(
        {
            "shopper": [f"secret-{i:04}" for i in shopper],
            "day": number * 2,
            "shop": [f"{'abcde'[draw.choice(5, p=taste[i])]}" for i in shopper],
            "till": number * 3.0 + draw.integers(0, 1000, n)[shopper],
            "price": 0.02 * number + draw.normal(size=len(shopper)),
        }
    )


def read(table: pl.DataFrame, **options: Any) -> ev.Dataset:
    return ev.read(table, key="shopper", time="day", **{"categorical": ["shop"], "numeric": ["price"], **options})


def verdicts(diagnosis: Diagnosis) -> dict[str, bool | None]:
    return {verdict.method.split(",")[0].split()[-1]: verdict.met for verdict in diagnosis.verdicts}


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return events()


@pytest.fixture(scope="module")
def diagnosis(table: pl.DataFrame) -> Diagnosis:
    return ev.diagnose(read(table))


def test_habits_and_rising_prices_are_detected(diagnosis: Diagnosis) -> None:
    assert verdicts(diagnosis)["coles"] is True
    assert diagnosis.irreversibility is not None
    assert [field.name for field in diagnosis.irreversibility.clocks] == []
    assert diagnosis.theorem1 is not None
    assert diagnosis.theorem1.within
    assert diagnosis.power_law is not None
    assert diagnosis.theorem1.alpha == diagnosis.power_law.alpha


def test_the_same_seed_gives_the_same_result(table: pl.DataFrame, diagnosis: Diagnosis) -> None:
    again = ev.diagnose(read(table.sample(fraction=1, shuffle=True, seed=5)))
    assert again.to_dict() == diagnosis.to_dict()
    assert ev.diagnose(read(table), seed=1).to_dict() != diagnosis.to_dict()


def test_a_counter_is_named_a_clock(table: pl.DataFrame) -> None:
    diagnosis = ev.diagnose(read(table, numeric=["price", "till"]))
    assert verdicts(diagnosis)["ocp"] is False
    assert any(
        note == "column 'till' looks like a clock: it rises at 100 % of the steps in time" for note in diagnosis.notes
    )
    assert "clocks to leave out: 'till'" in diagnosis.verdicts[2].found
    assert diagnosis.irreversibility is not None
    order = order_figure(diagnosis.irreversibility)
    drawn = dict(zip(order["layout"]["yaxis"]["ticktext"], order["data"][0]["marker"]["color"], strict=True))
    assert [name for name, colour in drawn.items() if colour == PALETTE[1]] == ["till"]


def test_a_sample_of_entities_is_checked_and_counted(table: pl.DataFrame) -> None:
    diagnosis = ev.diagnose(read(table), entities=60)
    assert (diagnosis.entities, diagnosis.looked_at) == (150, 60)
    assert "random sample of 60 of 150 entities (seed 0)" in diagnosis.notes[0]
    assert diagnosis.power_law is not None
    assert len(diagnosis.power_law.lengths) == 150
    with pytest.raises(ev.ConfigError, match=r"entities .*-5"):
        ev.diagnose(read(table), entities=-5)


def test_json_and_progress(table: pl.DataFrame) -> None:
    calls: list[tuple[int, int, str]] = []
    diagnosis = ev.diagnose(read(table), progress=lambda *step: calls.append(step))
    assert [done for done, _, _ in calls] == [0, 1, 2, 3]
    assert {total for _, total, _ in calls} == {3}
    plain = json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))
    assert plain["repeatability"][0]["field"] == "shop"
    assert plain["repeatability"][0]["median_within"] < plain["repeatability"][0]["median_between"]
    assert plain["irreversibility"]["threshold"] == 0.55
    assert {"method", "assumption", "met", "found", "advice", "right", "cases"} == plain["verdicts"][0].keys()


def test_advice_is_given_only_where_an_answer_was_always_right(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [Verdict(method, "", met, "") for method, met in TRIED]
    for verdict in answers:
        right, cases = verdict.tried
        assert 0 <= right <= cases
        assert verdict.advice.startswith("none") == (right < cases or not cases)
        assert f"right in {right} of {cases} cases" in verdict.advice
        assert (verdict.to_dict()["right"], verdict.to_dict()["cases"]) == (right, cases)
    assert Verdict("coles", "", None, "").advice == "none"
    assert Verdict("nsp", "", True, "").advice == "none: this answer was not tried"
    monkeypatch.setattr(verdicts_module, "TRIED", {("coles", True): (4, 4)})
    monkeypatch.setattr(verdicts_module, "ADVICE", {("coles", True): "take coles"})
    assert Verdict("coles", "", True, "").advice == "take coles (right in 4 of 4 cases)"


def test_the_first_sentence_says_which_method_or_that_nothing_tells(
    diagnosis: Diagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(width=400)
    with console.capture() as capture:
        console.print(diagnosis.render())
    assert capture.get().startswith(f"{diagnosis.recommendation}\n")
    assert diagnosis.recommendation.startswith("Nothing here tells which of coles, ocp, ocp_biased, pcl will help")
    texts = Reader(page(diagnosis)).texts
    assert texts.index(diagnosis.recommendation) < texts.index("What the methods assume")
    met = {(verdict.method, verdict.met) for verdict in diagnosis.verdicts}
    monkeypatch.setattr(verdicts_module, "TRIED", dict.fromkeys(met, (3, 4)))
    assert "random_slices" not in diagnosis.recommendation
    monkeypatch.setattr(verdicts_module, "TRIED", {("coles", True): (4, 4)})
    monkeypatch.setattr(verdicts_module, "ADVICE", {("coles", True): "take coles"})
    assert diagnosis.recommendation == (
        "What was right in every case that was tried: take coles (right in 4 of 4 cases)."
    )


def test_yes_no_and_neither_differ_by_sign_word_and_class(diagnosis: Diagnosis) -> None:
    answers = {True: ("✓ yes", "yes"), False: ("✗ no", "no"), None: ("? cannot be told", "open")}
    verdicts = tuple(Verdict("coles", str(met), met, "") for met in answers)
    reader = Reader(page(replace(diagnosis, verdicts=verdicts)))
    classes = [value for tag, name, value in reader.attributes if tag == "span" and name == "class"]
    assert classes == [f"answer {name}" for _, name in answers.values()]
    shown = [text for text in reader.texts if text[:2] in ("✓ ", "✗ ", "? ")]
    assert shown[:3] == [text for text, _ in answers.values()]


def test_the_page_of_the_docs_has_the_counts_of_the_code() -> None:
    text = (ROOT / "docs/diagnose.md").read_text()
    for (method, met), (right, cases) in TRIED.items():
        name = method.replace("coles with rejection_slices", "`coles` with `rejection_slices`")
        name = name if "`" in name else ", ".join(f"`{part}`" for part in name.split(", "))
        assert f"| {name} | {'yes' if met else 'no'} | {right} of {cases} |" in text


def test_without_a_categorical_column_repetition_is_not_checked(table: pl.DataFrame) -> None:
    diagnosis = ev.diagnose(read(table, categorical=[]))
    assert verdicts(diagnosis)["coles"] is None
    assert diagnosis.verdicts[0].found == "there is no categorical column by which slices can be compared"


def test_a_column_that_identifies_entities_does_not_show_repetition(table: pl.DataFrame) -> None:
    identifying = table.with_columns(shop=pl.col("shopper").str.slice(-1))
    diagnosis = ev.diagnose(read(identifying))
    assert verdicts(diagnosis)["coles"] is None
    assert "'shop' identifies them" in diagnosis.verdicts[0].found


def test_events_that_are_all_alike_are_not_checked(table: pl.DataFrame) -> None:
    same = table.with_columns(shop=pl.lit("a"), price=pl.lit(1.0))
    diagnosis = ev.diagnose(read(same))
    assert (verdicts(diagnosis)["coles"], verdicts(diagnosis)["ocp"]) == (None, None)
    assert "all events have the same value" in diagnosis.verdicts[0].found
    assert "all events are alike" in diagnosis.verdicts[2].found


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"seed": -1}, r"^seed must be in \[0, 2\^62\), got -1$"),
        ({"seed": 2**70}, "^seed must be a number of at most 64 bits, got one of 71 bits$"),
        ({"seed": 0.5}, "^seed must be a whole number, got 0.5$"),
        ({"entities": 2**70}, "^entities must be a number of at most 64 bits, got one of 71 bits$"),
        ({"entities": 0}, "^entities must be at least 1, got 0$"),
    ],
)
def test_numbers_out_of_range_are_refused(table: pl.DataFrame, option: dict[str, Any], message: str) -> None:
    data = read(table)
    with pytest.raises(ev.ConfigError, match=message):
        ev.diagnose(data, **option)


def test_one_event_per_entity_is_refused(table: pl.DataFrame) -> None:
    with pytest.raises(ev.DataError, match="at least one entity must have two events, but none of 150 has"):
        ev.diagnose(read(table.group_by("shopper").first()))


def test_histories_of_two_events_are_too_short_for_every_check() -> None:
    short = pl.DataFrame(
        {"shopper": [1, 1, 2, 2], "day": [1, 2, 1, 2], "shop": ["a", "b"] * 2, "price": [1.0, 2, 3, 4]}
    )
    diagnosis = ev.diagnose(read(short, fitting=ev.Fitting(min_count=1)))
    assert set(verdicts(diagnosis).values()) == {None}
    assert "only 2 of 2 have them" in diagnosis.verdicts[2].found
    assert "a power law needs 50 entities" in diagnosis.verdicts[1].found


def test_the_terminal_shows_every_part(diagnosis: Diagnosis) -> None:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(diagnosis.render())
    text = capture.get()
    for part in ("150 entities", "met", "█", "power law", "Theorem 1", "same entity closer", "all fields", "price"):
        assert part in text


def test_the_page_shows_the_numbers_and_loads_nothing(diagnosis: Diagnosis) -> None:
    graph_objects = pytest.importorskip("plotly.graph_objects")
    reader = Reader(page(diagnosis, HOSTILE))
    assert HOSTILE in "".join(reader.texts)
    assert not [value for _, name, value in reader.attributes if name in ("src", "href")]
    figures = reader.data["figures"]
    ids = {value for _, name, value in reader.attributes if name == "id" and str(value).startswith("chart-")}
    assert ids == figures.keys()
    assert len(figures) == 3
    for figure in figures.values():
        graph_objects.Figure(figure)  # raises if plotly does not accept it
    lengths, divergences, order = figures.values()
    assert lengths["layout"]["xaxis"]["type"] == lengths["layout"]["yaxis"]["type"] == "log"
    assert sum(divergences["data"][0]["y"]) == pytest.approx(1)
    assert order["data"][0]["x"][0] == pytest.approx(diagnosis.irreversibility.auroc.value)  # type: ignore[union-attr]
    assert "Theorem 1 in numbers" in reader.texts


def test_a_hostile_column_name_is_escaped(table: pl.DataFrame) -> None:
    diagnosis = ev.diagnose(read(table.rename({"shop": HOSTILE}), categorical=[HOSTILE]))
    text = page(diagnosis)
    assert "<img src=x" not in text
    assert any(HOSTILE in part for part in Reader(text).texts)


def test_the_command_writes_json_and_a_page(tmp_path: Path, table: pl.DataFrame, diagnosis: Diagnosis) -> None:
    source, output = tmp_path / "events.parquet", tmp_path / "diagnose.html"
    table.write_parquet(source)
    columns = ("--key", "shopper", "--time", "day", "--categorical", "shop", "--numeric", "price")
    result = invoke("diagnose", source, *columns, "-o", output, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == diagnosis.to_dict()
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert "secret-" not in output.read_text()
    assert "secret-" not in result.output
    result = invoke("diagnose", source, *columns, "--entities", 80)
    assert result.exit_code == 0
    assert "random sample of 80 of 150 entities" in " ".join(result.output.split())


def test_the_command_refuses_in_one_sentence(tmp_path: Path, table: pl.DataFrame) -> None:
    source = tmp_path / "events.parquet"
    table.group_by("shopper").first().write_parquet(source)
    for arguments, code, sentence in (
        (("--key", "shopper", "--time", "day"), 1, "none of 150 has"),
        (("--key", "shopper", "--time", "day", "-o", tmp_path), 2, "is a folder"),
        (("--key", "shoper", "--time", "day"), 1, "did you mean 'shopper'"),
    ):
        result = invoke("diagnose", source, *arguments)
        assert result.exit_code == code, result.output
        assert sentence in " ".join(result.output.split())
        assert "Traceback" not in result.output
        assert "secret" not in result.output


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "coles", "ocp", "auroc"),
    [
        ("cmapss", None, True, (0.91, 0.96)),
        ("online_retail", True, True, (0.55, 0.6)),
        ("physionet2012", True, True, (0.59, 0.65)),
    ],
)
def test_on_real_data(name: str, coles: bool | None, ocp: bool, auroc: tuple[float, float]) -> None:
    diagnosis = ev.diagnose(getattr(data, name)()[0])
    assert (verdicts(diagnosis)["coles"], verdicts(diagnosis)["ocp"]) == (coles, ocp)
    assert diagnosis.irreversibility is not None
    assert diagnosis.irreversibility.clocks == ()
    assert auroc[0] < diagnosis.irreversibility.auroc.value < auroc[1]
