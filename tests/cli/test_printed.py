"""A terminal obeys nothing in what commands print and in pages, whatever keys, values and names of columns hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import eventvec as ev
from commands import invoke
from eventvec.cli import terminal
from eventvec.errors import printable

OBEYED = "\x1b]0;a title\x07\x9b31m\u202e"
"""What sets the title of a terminal, rings its bell, colours and turns text."""
CARD, SHOP, PAID, CHURN = (f"{name}{OBEYED}" for name in ("card", "shop", "paid", "churn"))
CARDS = [f"c{number:02}{OBEYED}" for number in range(40)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with events, labels, a run and its vectors, in which every text has what a terminal obeys."""
    path, rng, events = tmp_path_factory.mktemp("printed"), np.random.default_rng(0), 12
    total = len(CARDS) * events
    table = pl.DataFrame(
        {
            CARD: np.repeat(CARDS, events),
            "when": np.tile(
                np.datetime64("2024-01-01", "us") + np.arange(events) * np.timedelta64(30, "h"), len(CARDS)
            ),
            SHOP: [f"s{shop}{OBEYED}" for shop in rng.integers(0, 3, total)],
            PAID: rng.exponential(size=total),
        }
    )
    table.write_parquet(path / "events.parquet")
    churn = [f"{value}{OBEYED}" for value in ("yes", "no")] * (len(CARDS) // 2)
    pl.DataFrame({CARD: CARDS, CHURN: churn}).write_parquet(path / "labels.parquet")
    data = ev.read(table, key=CARD, time="when")
    run = ev.fit(data, method={"encoder": {"dim": 8}}, epochs=1, out=path / "run")
    ev.write(path / "z.parquet", run.embed(data))
    return path


READING = ["--key", CARD, "--time", "when"]
LABELLED = ["labels.parquet", "--label", CHURN]
COMMANDS = {
    "describe": ["describe", "events.parquet", *READING],
    "fit": ["fit", "--events", "events.parquet", *READING, "--dry-run"],
    "search": ["search", "z.parquet", "--key", CARDS[1], "--events", "events.parquet"],
    "card": ["card", "run", "--events", "events.parquet"],
    "influence": ["influence", "run", "events.parquet", *LABELLED, "--model", "knn"],
    "evaluate": ["evaluate", "z.parquet", *LABELLED, "--models", "knn", "--full"],
    "drift": ["drift", "events.parquet", "events.parquet", *READING, "--full", "-o", "drift.html"],
    "report": ["report", "run", "events.parquet", *LABELLED, "--models", "knn", "--drivers",
               "-o", "report.html"],
    "an error": ["influence", "run", f"absent{OBEYED}.parquet"],
    "wrong usage": ["embed", "run", "events.parquet", "-o", f"{OBEYED}.csv"],
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in ("drift", "report") else ()) for name in COMMANDS]
)
def test_a_terminal_obeys_nothing_that_a_command_prints(
    files: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(files)
    result = invoke(*COMMANDS[name])
    assert (result.exit_code == 0) == (name not in ("an error", "wrong usage")), result.output
    printed = result.output + "".join(page.read_text("utf-8") for page in files.glob(f"{name}.html"))
    assert r"\x1b" in printed
    assert not {letter for letter in OBEYED if not letter.isprintable()} & {*printed}


def test_texts_of_several_lines_keep_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.say(f"one\ntwo {OBEYED}")
    assert capsys.readouterr().out == f"one\ntwo {printable(OBEYED)}\n"


def test_keys_are_printed_as_they_are(tmp_path: Path) -> None:
    table = pl.DataFrame({"card": np.repeat([3440, 3441, 12345678], 40), "when": np.tile(np.arange(40) * 100, 3)})
    table.write_parquet(tmp_path / "events.parquet")
    printed = invoke("describe", tmp_path / "events.parquet", "--key", "card", "--time", "when").stdout
    assert "│ 3440 " in printed
    assert "│ 12345678 " in printed
    data = ev.read(table, key="card", time="when")
    z = ev.embed(ev.encoders.Aggregates(data.schema), data)
    hits = ev.search(z, key=3440)
    assert "│ 12345678 " in repr(hits)
    assert ">12345678<" in hits.html
    assert {row["card"] for row in hits.rows} == {3441, 12345678}
