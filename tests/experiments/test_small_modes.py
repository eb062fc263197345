"""Every table of every experiment runs in its small mode and prints its rows as JSON."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import pytest
from experiments.tpp import arms

import backbones
from eventvec.precision import cpu_has_bfloat16
from processes import program

ROOT = Path(__file__).parents[2]
TABLES = {
    "chance": ("table", "winners"),
    "coles": (
        *("table1", "table2", "table6", "table7", "table8", "figure2", "figure3", "figure4", "figure4e"),
        *("figure5", "figure6", "figure7", "precision", "gate", "foreseen", "shuffled", "theorem1"),
        *("negatives", "curves"),
    ),
    "cresp": (
        *("heads", "metacde", "physionet", "picture_batches", "pictures", "resnet", "sinusoids", "snooker", "solids"),
    ),
    "decisions": ("rules", "policies", "measures", "reasons"),
    "expclr": ("choose", "rates", "hapt", "cause", "features", "labels", "only_labels", "electric_devices", "icu"),
    "influence": ("retrained",),
    "intervals": ("coverage", "scales"),
    "main_job": ("churn", "death", "flights", "order"),
    "order": (
        *("figure2", "figure2_loss", "population", "pairs", "features", "assumptions", "encoders", "foreseen"),
        *("figure3b", "texts", "text_trainings", "text_pairs", "attention"),
    ),
    "protocols": ("table",),
    "settings": ("effects",),
    "tpp": (
        *("describe", "table3", "choose", "table6", "table7", "table8", "table9", "table10", "table11", "table12"),
        *("counterfeits", "pairs", "steps", "full", "words", "untrained", "others", "fusions"),
    ),
    "words": ("human",),
    "worth": ("rule", "judges", "groups", "networks", "calls", "screen", "result", "curve"),
}
ALL = [(name, table) for name, tables in TABLES.items() for table in tables]
PEER = {("coles", "peer"), ("worth", "peer")}  # they need the environment that `make peer` makes
COMMAND_LINE = (("coles", "figure3"), ("order", "population"))
"""Tables that run in processes of their own, as all do by the same `command_line`; the others run in this process."""
WITHOUT_DATA = {
    ("chance", "table"), ("chance", "winners"),
    ("decisions", "rules"),
    ("cresp", "heads"), ("cresp", "metacde"), ("cresp", "picture_batches"), ("cresp", "pictures"), ("cresp", "resnet"),
    ("cresp", "sinusoids"), ("cresp", "snooker"), ("cresp", "solids"), ("influence", "retrained"),
    ("main_job", "flights"),
    ("order", "figure2"), ("order", "figure2_loss"), ("order", "population"), ("order", "pairs"),
    ("settings", "effects"), ("worth", "judges"), ("worth", "groups"), ("worth", "networks"), ("worth", "calls"),
    ("worth", "screen"), ("worth", "result"), ("worth", "curve"), ("worth", "rule"),
}  # fmt: skip


IN_BFLOAT16 = {
    ("order", "texts"), ("order", "text_trainings"), ("order", "text_pairs"), ("order", "attention"),
}  # fmt: skip
"""Tables of networks that compute in bfloat16, some of them in processes of their own."""
SLOW_CPU = pytest.mark.skipif(not cpu_has_bfloat16(), reason="this CPU does not compute in bfloat16")


def cases(*tables: tuple[str, str]) -> list[object]:
    marks = {table: () if table in WITHOUT_DATA else (pytest.mark.data,) for table in tables}
    return [
        pytest.param(*table, marks=(*marks[table], *([SLOW_CPU] if table in IN_BFLOAT16 else []))) for table in tables
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for what was trained: tables that share a training share it here as for those who run all."""
    return tmp_path_factory.mktemp("trained")


def keep(name: str, folder: Path) -> list[str]:
    """Return the option that names the folder of what was trained, for experiments that have it."""
    kept = ("coles", "cresp", "expclr", "order", "protocols", "settings", "tpp", "worth")
    return ["--keep", str(folder / name)] if name in kept else []


def check(printed: str) -> None:
    result = json.loads(printed)
    assert result["rows"]
    assert result["about"]["small"] is True
    assert all(isinstance(row, dict) and row for row in result["rows"])


@pytest.mark.parametrize(("name", "table"), cases(*COMMAND_LINE))
def test_tables_run_from_the_command_line(name: str, table: str, tmp_path: Path) -> None:
    done = program(f"experiments.{name}", table, "--small", "--json", *keep(name, tmp_path))
    assert done.code == 0, done.stderr[-2000:]
    check(done.stdout)


@pytest.mark.parametrize(("name", "table"), cases(*(table for table in ALL if table not in COMMAND_LINE)))
def test_all_other_tables_run(
    name: str,
    table: str,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    only = ["--only", "stays"] if name == "words" else []  # its other set is in test_words.py
    monkeypatch.setattr(sys, "argv", [name, table, "--small", "--json", *only, *keep(name, trained)])
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # starting processes takes longer than what they do
    if name in ("order", "tpp") and table != "pairs":  # that one reads MiniLM, whose six layers are slow
        (tmp_path / arms.MINILM).symlink_to(backbones.folder("bert"))
        monkeypatch.setenv("EVENTVEC_MODELS", str(tmp_path))
    importlib.import_module(f"experiments.{name}.__main__").main()
    check(capsys.readouterr().out)


def test_every_table_is_run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    listed = set()
    for name in sorted(path.parent.name for path in (ROOT / "experiments").glob("*/__main__.py")):
        monkeypatch.setattr(sys, "argv", [name])
        importlib.import_module(f"experiments.{name}.__main__").main()
        listed |= {(name, line.split()[0]) for line in capsys.readouterr().out.splitlines()}
    assert listed == {*ALL, *PEER}
