"""`eventvec decide` prints what the Python call returns, writes a page, and says what is wrong in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import eventvec as ev
import fits
from commands import answer, invoke, purchases

COSTS = ("--action", "1", "--case", "5", "--saves", ".5")
CUSTOMERS = [f"c{i:03}" for i in range(80)]

hand_crafted_features_alone = pytest.fixture(fits.without_codes, autouse=True, scope="module")


@pytest.fixture(scope="module")
def files(hand_crafted_features_alone: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the events of 80 customers, labels before and after day 12, a rule and a model."""
    path, rng = tmp_path_factory.mktemp("decide"), np.random.default_rng(0)
    events = purchases(CUSTOMERS, 12)
    events.write_parquet(path / "events.parquet")
    likes = (np.arange(80) % 2 == 0) ^ (rng.random(80) < 0.2)
    early = pl.DataFrame({"customer": CUSTOMERS, "on": ["2024-01-10"] * 80, "likes": likes})
    early.write_parquet(path / "early.parquet")
    late = early.with_columns(on=pl.lit("2024-01-18"), house=pl.int_range(80) // 3)
    late.write_parquet(path / "labels.parquet")
    late.select("customer", acts=pl.int_range(80) % 3 == 0).write_parquet(path / "rule.parquet")
    data = ev.read(events, key="customer", time="when")
    ev.fit(data, labels=early, label="likes", out=path / "model")
    return path


def test_the_command_prints_what_the_call_returns(files: Path) -> None:
    model, costs = ev.load(files / "model"), {"action": 1.0, "case": 5.0, "saves": 0.5}
    later = (files / "events.parquet", files / "labels.parquet")
    for arguments, expected in (
        ([], ev.decide(model, **costs)),
        (["--of", "false", "--net-benefit", "--seed", 3],
         ev.decide(model, of="false", net_benefit=True, seed=3, **costs)),
        ([*later, "--rule", files / "rule.parquet", "--group", "house"],
         ev.decide(model, *later, rule=files / "rule.parquet", group="house", **costs)),
        ([*later, "--no-label-time", "--until", "2024-01-10"],
         ev.decide(model, *later, label_time="none", until="2024-01-10", **costs)),
    ):  # fmt: skip
        printed = answer("decide", files / "model", *arguments, *COSTS, "--device", "cpu")
        assert printed == expected.to_dict()
    assert printed["cost"]["low"] < printed["cost"]["value"] < printed["cost"]["high"]


def test_the_verdict_is_printed_alone_or_with_everything(files: Path) -> None:
    short, full = invoke("decide", files / "model", *COSTS), invoke("decide", files / "model", *COSTS, "--full")
    assert (short.exit_code, full.exit_code) == (0, 0)
    assert short.stdout.startswith("Act on those with a probability of .")
    assert "policies" not in short.stdout
    for word in ("policies", "break-even", "curve", "parts", "only a trial with random actions measures it"):
        assert word in " ".join(full.stdout.split())


def test_the_page_has_the_curves(files: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = invoke("decide", files / "model", *COSTS, "--net-benefit", "-o", page)
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "What acting saves by threshold" in text
    assert "Net benefit by threshold" in text


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--case", "5"], 2, "Missing option '--action'"),
        (["--action", "0", "--case", "5"], 2, "action must be above 0 and finite, got 0.0"),
        ([*COSTS[:4], "--saves", "2"], 2, "saves must be in (0, 1], got 2"),
        (["--of", "", *COSTS], 2, "it is empty; give a value, or leave it out"),
        (["events.parquet", "labels.parquet", "--rule", "early.parquet", *COSTS], 1, "says nothing of 80 of 80"),
        (["events.parquet", "labels.parquet", "-o", "labels.parquet", *COSTS], 2, "labels.parquet"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(
    files: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, sentence: str
) -> None:
    monkeypatch.chdir(files)
    result = invoke("decide", "model", *arguments)
    printed = " ".join(result.stderr.replace("│", " ").split())
    assert result.exit_code == code, printed
    assert sentence in printed
