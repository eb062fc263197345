"""The whole diagnosis: verdicts, files, the page, the command, and what is refused."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

import eventvec as ev
from eventvec.cli import app
from eventvec.diagnosis import Diagnosis, page
from eventvec.diagnosis.page import order_figure
from eventvec.reporting import PALETTE
from experiments import data
from test_reporting import HOSTILE, Reader


def events(n: int = 150, t: int = 24, seed: int = 0) -> pl.DataFrame:
    """Return shoppers who are creatures of habit, a till that counts, and prices that rise for each of them."""
    draw = np.random.default_rng(seed)
    length = np.minimum((t * (1 - draw.random(n)) ** -0.6).astype(int), 20 * t)
    shopper = np.repeat(np.arange(n), length)
    taste = draw.dirichlet(np.full(5, 0.4), n)
    place = np.concatenate([np.arange(k) for k in length])
    return pl.DataFrame(
        {
            "shopper": [f"secret-{i:04}" for i in shopper],
            "day": place * 2,
            "shop": [f"{'abcde'[draw.choice(5, p=taste[i])]}" for i in shopper],
            "till": place * 3.0 + draw.integers(0, 1000, n)[shopper],
            "price": 0.02 * place + draw.normal(size=len(shopper)),
        }
    )


def read(table: pl.DataFrame, **options: Any) -> ev.Dataset:
    return ev.read(table, key="shopper", time="day", **{"categorical": ["shop"], "numeric": ["price"], **options})


def verdicts(found: Diagnosis) -> dict[str, bool | None]:
    return {verdict.method.split(",")[0].split()[-1]: verdict.met for verdict in found.verdicts}


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return events()


@pytest.fixture(scope="module")
def found(table: pl.DataFrame) -> Diagnosis:
    return ev.diagnose(read(table))


def test_habits_and_rising_prices_are_found(found: Diagnosis) -> None:
    assert verdicts(found)["coles"] is True
    assert found.irreversibility is not None
    assert [field.name for field in found.irreversibility.clocks] == []
    assert found.theorem1 is not None
    assert found.theorem1.within
    assert found.power_law is not None
    assert found.theorem1.alpha == found.power_law.alpha


def test_the_same_seed_finds_the_same(table: pl.DataFrame, found: Diagnosis) -> None:
    again = ev.diagnose(read(table.sample(fraction=1, shuffle=True, seed=5)))
    assert again.to_dict() == found.to_dict()
    assert ev.diagnose(read(table), seed=1).to_dict() != found.to_dict()


def test_a_counter_is_warned_of(table: pl.DataFrame) -> None:
    found = ev.diagnose(read(table, numeric=["price", "till"]))
    assert verdicts(found)["ocp"] is False
    assert any(
        note == "column 'till' looks like a clock: it rises at 100 % of the steps in time" for note in found.notes
    )
    assert "'till' would give the order away" in found.verdicts[2].found
    assert found.irreversibility is not None
    order = order_figure(found.irreversibility)
    drawn = dict(zip(order["layout"]["yaxis"]["ticktext"], order["data"][0]["marker"]["color"], strict=True))
    assert [name for name, colour in drawn.items() if colour == PALETTE[1]] == ["till"]


def test_entities_are_drawn_and_counted(table: pl.DataFrame) -> None:
    found = ev.diagnose(read(table), entities=60)
    assert (found.entities, found.looked_at) == (150, 60)
    assert "asked of 60 of 150 entities, drawn with seed 0" in found.notes[0]
    assert found.power_law is not None
    assert len(found.power_law.lengths) == 150
    with pytest.raises(ev.ConfigError, match="entities is -5; at least 1 is needed"):
        ev.diagnose(read(table), entities=-5)


def test_json_and_progress(table: pl.DataFrame) -> None:
    told: list[tuple[int, int, str]] = []
    found = ev.diagnose(read(table), progress=lambda *step: told.append(step))
    assert [done for done, _, _ in told] == [0, 1, 2, 3]
    assert {of for _, of, _ in told} == {3}
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["repeatability"][0]["field"] == "shop"
    assert plain["repeatability"][0]["median_within"] < plain["repeatability"][0]["median_between"]
    assert plain["irreversibility"]["threshold"] == 0.55
    assert {"method", "assumption", "met", "found"} == plain["verdicts"][0].keys()


def test_without_a_categorical_column_it_says_so(table: pl.DataFrame) -> None:
    found = ev.diagnose(read(table, categorical=[]))
    assert verdicts(found)["coles"] is None
    assert found.verdicts[0].found == "there is no categorical column to compare slices by"


def test_a_column_that_names_the_entity_proves_nothing(table: pl.DataFrame) -> None:
    own = table.with_columns(shop=pl.col("shopper").str.slice(-1))
    found = ev.diagnose(read(own))
    assert verdicts(found)["coles"] is None
    assert "'shop' names them" in found.verdicts[0].found


def test_events_that_are_all_alike_are_said_to_be(table: pl.DataFrame) -> None:
    same = table.with_columns(shop=pl.lit("a"), price=pl.lit(1.0))
    found = ev.diagnose(read(same))
    assert (verdicts(found)["coles"], verdicts(found)["ocp"]) == (None, None)
    assert "all events have one value" in found.verdicts[0].found
    assert "all events are alike" in found.verdicts[2].found


def test_one_event_per_entity_is_refused(table: pl.DataFrame) -> None:
    with pytest.raises(ev.DataError, match="none of 150 entities has two events"):
        ev.diagnose(read(table.group_by("shopper").first()))


def test_histories_of_two_events_have_no_windows_to_speak_of() -> None:
    short = pl.DataFrame(
        {"shopper": [1, 1, 2, 2], "day": [1, 2, 1, 2], "shop": ["a", "b"] * 2, "price": [1.0, 2, 3, 4]}
    )
    found = ev.diagnose(read(short, fitting=ev.Fitting(min_count=1)))
    assert set(verdicts(found).values()) == {None}
    assert "2 of 2 entities have two windows" in found.verdicts[2].found
    assert "a power law needs 50 entities" in found.verdicts[1].found


def test_the_terminal_shows_it(found: Diagnosis) -> None:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(found.render())
    text = capture.get()
    for part in ("150 entities", "met", "█", "power law", "Theorem 1", "own slice nearer", "all fields", "price"):
        assert part in text


def test_the_page_draws_the_numbers_and_loads_nothing(found: Diagnosis) -> None:
    graph_objects = pytest.importorskip("plotly.graph_objects")
    reader = Reader(page(found, HOSTILE))
    assert HOSTILE in "".join(reader.texts)
    assert not [value for _, name, value in reader.attributes if name in ("src", "href")]
    figures = reader.data["figures"]
    drawn = {value for _, name, value in reader.attributes if name == "id" and str(value).startswith("chart-")}
    assert drawn == figures.keys()
    assert len(figures) == 3
    for figure in figures.values():
        graph_objects.Figure(figure)  # refuses what plotly does not know
    lengths, divergences, order = figures.values()
    assert lengths["layout"]["xaxis"]["type"] == lengths["layout"]["yaxis"]["type"] == "log"
    assert sum(divergences["data"][0]["y"]) == pytest.approx(1)
    assert order["data"][0]["x"][0] == pytest.approx(found.irreversibility.auroc.value)  # type: ignore[union-attr]
    assert "Theorem 1 in numbers" in reader.texts


def test_a_hostile_column_is_escaped(table: pl.DataFrame) -> None:
    found = ev.diagnose(read(table.rename({"shop": HOSTILE}), categorical=[HOSTILE]))
    text = page(found)
    assert "<img src=x" not in text
    assert any(HOSTILE in part for part in Reader(text).texts)


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["diagnose", *(str(argument) for argument in arguments)])


def test_the_command_writes_json_and_a_page(tmp_path: Path, table: pl.DataFrame, found: Diagnosis) -> None:
    source, output = tmp_path / "events.parquet", tmp_path / "diagnose.html"
    table.write_parquet(source)
    columns = ("--key", "shopper", "--time", "day", "--categorical", "shop", "--numeric", "price")
    result = invoke(source, *columns, "-o", output, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == found.to_dict()
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert "secret-" not in output.read_text()
    assert "secret-" not in result.output
    shown = invoke(source, *columns, "--entities", 80)
    assert shown.exit_code == 0
    assert "asked of 80 of 150" in " ".join(shown.output.split())


def test_what_the_command_refuses_is_a_sentence(tmp_path: Path, table: pl.DataFrame) -> None:
    source = tmp_path / "events.parquet"
    table.group_by("shopper").first().write_parquet(source)
    for arguments, code, sentence in (
        (("--key", "shopper", "--time", "day"), 1, "none of 150 entities has two events"),
        (("--key", "shopper", "--time", "day", "-o", tmp_path), 2, "is a folder"),
        (("--key", "shoper", "--time", "day"), 1, "did you mean 'shopper'"),
    ):
        result = invoke(source, *arguments)
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
    found = ev.diagnose(getattr(data, name)()[0])
    assert (verdicts(found)["coles"], verdicts(found)["ocp"]) == (coles, ocp)
    assert found.irreversibility is not None
    assert found.irreversibility.clocks == ()
    assert auroc[0] < found.irreversibility.auroc.value < auroc[1]
