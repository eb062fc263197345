"""Each command writes what the Python call of the same name writes on the same files, metadata included."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

import eventvec as ev
from commands import answer, customer_labels, invoke, purchases

DIFFERS = ("seconds", "threads", "events_per_second")
"""The entries of a run's files that depend on the machine and not on the data."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the events of 60 entities in two batches, their labels, and a trained run."""
    path = tmp_path_factory.mktemp("files")
    customers = [f"c{i:02}" for i in range(60)]
    events = purchases(customers, 12)
    events.write_parquet(path / "events.parquet")
    split = pl.lit("2024-01-12").str.to_datetime()
    events.filter(pl.col("when") < split).write_parquet(path / "history.parquet")
    events.filter((pl.col("when") >= split) & (pl.col("customer") < "c40")).write_parquet(path / "batch.parquet")
    decided = pl.Series("decided", [f"2024-01-{8 + i % 9:02}T00:00:00" for i in range(60)]).str.to_datetime()
    ages = pl.Series("age", np.random.default_rng(1).normal(size=60))
    customer_labels(customers).with_columns(decided, ages).write_parquet(path / "people.parquet")
    data = ev.read(path / "events.parquet", key="customer", time="when", holdout=0.25)
    ev.fit(data, method={"encoder": {"dim": 8}}, epochs=1, out=path / "run")
    return path


def run_folder(path: Path) -> dict[str, Any]:
    """Return the content of a model folder; the id of the run is replaced, and what depends on the machine left out."""
    info = json.loads((path / "model.json").read_text())
    text = {
        file.name: file.read_text().replace(info["id"], "ID")
        for file in path.iterdir()
        if file.suffix != ".safetensors"
    }
    card = text.pop("README.md").splitlines()
    assert "seconds" in next(line for line in card if line.startswith("| steps"))
    return {
        "names": sorted(file.name for file in path.iterdir()),
        "config": tomllib.loads(text["config.toml"]),
        "schema": text["schema.json"],
        "info": without_seconds(json.loads(text["model.json"])),
        "metrics": [without_seconds(json.loads(line)) for line in text["metrics.jsonl"].splitlines()],
        "card": [line for line in card if not line.startswith("| steps")],
    }


def without_seconds(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: without_seconds(value) for name, value in values.items() if name not in DIFFERS}
    return [without_seconds(value) for value in values] if isinstance(values, list) else values


def assert_same_runs(one: Path, other: Path) -> None:
    assert run_folder(one) == run_folder(other)
    weights, others = (load_file(path / "model.safetensors") for path in (one, other))
    assert weights.keys() == others.keys()
    assert all(torch.equal(value, others[name]) for name, value in weights.items())


def assert_same_tables(one: Path, other: Path) -> None:
    """Check that two Parquet files have equal columns, types, values and metadata."""
    table, other_table = pq.read_table(one), pq.read_table(other)
    assert json.loads(table.schema.metadata[b"eventvec"]) == json.loads(other_table.schema.metadata[b"eventvec"])
    assert table.equals(other_table, check_metadata=True)


COLUMNS = {"key": "customer", "time": "when"}
FIT = ("--key", "customer", "--time", "when", "--epochs", 2, "--device", "cpu")


def test_fit(files: Path, tmp_path: Path) -> None:
    events, cutoffs = files / "events.parquet", files / "people.parquet"
    answer(
        "fit", "--events", events, *FIT, "--seed", 7, "--holdout", 0.25, "--categorical", "bought", "--key-as", "who",
        "--cutoffs", cutoffs, "--cutoff-column", "decided", "--until", "2024-01-15", "--method", "ocp",
        "--set", "encoder.dim=4", "--set", "fit.lr=0.01", "--set", "data.fitting={min_count = 2}",
        "--out", tmp_path / "command",
    )  # fmt: skip
    data = ev.read(
        str(events), **COLUMNS, holdout=0.25, holdout_seed=7, categorical=["bought"], key_as="who",
        cutoffs=str(cutoffs), cutoff_column="decided", until="2024-01-15", fitting=ev.Fitting(min_count=2),
    )  # fmt: skip
    tables = {"method": {"name": "ocp"}, "encoder": {"dim": 4}}
    ev.fit(data, method=tables, epochs=2, seed=7, lr=0.01, out=tmp_path / "call")
    assert_same_runs(tmp_path / "command", tmp_path / "call")
    config = run_folder(tmp_path / "call")["config"]
    assert config["data"]["cutoffs"] == str(cutoffs)
    assert config["data"]["holdout_seed"] == 7


def test_fit_with_the_defaults(files: Path, tmp_path: Path) -> None:
    answer("fit", "--events", files / "events.parquet", *FIT, "--seed", 7, "--out", tmp_path / "command")
    ev.fit(ev.read(files / "events.parquet", **COLUMNS), method="coles", epochs=2, seed=7, out=tmp_path / "call")
    assert_same_runs(tmp_path / "command", tmp_path / "call")


def test_fit_of_a_configuration(files: Path, tmp_path: Path) -> None:
    tables = {
        "encoder": {"name": "lstm", "dim": 4, "events": {"time": ["gap", "hour"]}},
        "method": {"name": "coles", "margin": 0.3, "views": {"name": "random_slices", "longest": 6, "shortest": 2}},
    }
    (tmp_path / "config.toml").write_text(
        f'[data]\npath = "{files}/events.parquet"\nkey = "customer"\ntime = "when"\nuntil = 2024-01-15\n'
        '[encoder]\nname = "lstm"\ndim = 9\nevents = { time = ["gap", "hour"] }\n'
        '[method]\nname = "coles"\nviews = { name = "random_slices", shortest = 2, longest = 6 }\n'
        "[fit]\nepochs = 2\nbatch_size = 20\n"
    )
    changes = ("--set", "method.margin=0.3", "--set", "encoder.dim=4")
    answer("fit", tmp_path / "config.toml", *changes, "--device", "cpu", "--out", tmp_path / "command")
    data = ev.read(str(files / "events.parquet"), **COLUMNS, until=np.datetime64("2024-01-15").item())
    ev.fit(data, method=tables, epochs=2, batch_size=20, out=tmp_path / "call")
    assert_same_runs(tmp_path / "command", tmp_path / "call")


@pytest.mark.parametrize("columns", [None, {"likes": "categorical", "age": "numeric"}])
def test_fit_from_another_run(files: Path, tmp_path: Path, columns: Any) -> None:
    events, people = files / "events.parquet", files / "people.parquet"
    listed = [
        each for name, kind in (columns or {}).items() for each in ("--set", f"data.static_columns.{name}={kind}")
    ]
    answer(
        "fit", "--events", events, "--from", files / "run", "--static", people, "--method", "supervised",
        "--set", "method.label=likes", *listed, "--holdout", 0.25, "--epochs", 2, "--device", "cpu",
        "--out", tmp_path / "command",
    )  # fmt: skip
    schema = ev.load(files / "run").schema
    data = ev.attach(ev.read(str(events), schema=schema, holdout=0.25), str(people), columns)
    tables = {"method": {"name": "supervised", "label": "likes"}, "encoder": {"from": str(files / "run")}}
    ev.fit(data, method=tables, epochs=2, out=tmp_path / "call")
    assert_same_runs(tmp_path / "command", tmp_path / "call")
    folder = run_folder(tmp_path / "command")
    assert folder["config"]["data"]["static"] == str(people)
    assert [run["fraction"] for run in folder["info"]["holdouts"]] == [0.25, 0.25]


@pytest.mark.usefixtures("bfloat16_everywhere")
@pytest.mark.parametrize(
    ("arguments", "options", "wide"),
    [
        ((), {}, False),
        (("--until", "2024-01-10", "--normalize"), {"until": "2024-01-10", "normalize": True}, False),
        (("--wide", "--key-as", "who", "--precision", "bfloat16"), {"key_as": "who", "precision": "bfloat16"}, True),
        (
            ("--cutoffs", "{people}", "--cutoff-column", "decided"),
            {"cutoffs": "{people}", "cutoff_column": "decided"},
            False,
        ),
    ],
)
def test_embed(files: Path, tmp_path: Path, arguments: tuple[str, ...], options: dict[str, Any], wide: bool) -> None:
    people = str(files / "people.parquet")
    options = {name: people if value == "{people}" else value for name, value in options.items()}
    events = files / "events.parquet"
    texts = [text.format(people=people) for text in arguments]
    answer("embed", files / "run", events, "-o", tmp_path / "command", "--device", "cpu", *texts)
    run = ev.load(files / "run")
    ev.write(tmp_path / "call", run.embed(events, **options), wide=wide)
    assert_same_tables(tmp_path / "command", tmp_path / "call")
    if "normalize" not in options and "precision" not in options:
        data = ev.read(str(events), schema=run.schema, **options)
        ev.write(tmp_path / "parts", ev.embed(run.encoder, data), wide=wide)
        assert_same_tables(tmp_path / "command", tmp_path / "parts")


def test_features(files: Path, tmp_path: Path) -> None:
    events, run = str(files / "events.parquet"), tmp_path / "features-run"
    roles = ("--key", "customer", "--time", "when")
    cut = {"cutoffs": str(files / "people.parquet"), "cutoff_column": "decided"}
    cut_texts = ("--cutoffs", cut["cutoffs"], "--cutoff-column", "decided")
    printed = answer("features", events, *roles, *cut_texts, "-o", tmp_path / "command", "--save", run)
    z = ev.features(events, key="customer", time="when", **cut)
    assert (printed["entities"], printed["features"]) == (60, z.shape[1])
    assert pl.read_parquet(tmp_path / "command").equals(z.frame())
    assert "run" not in answer("features", events, *roles, "-o", tmp_path / "alone")
    assert pl.read_parquet(tmp_path / "alone").equals(ev.features(events, key="customer", time="when").frame())
    answer("features", events, "--model", run, "-o", tmp_path / "later", "--until", "2024-01-10", "--key-as", "who")
    answer("embed", run, events, "-o", tmp_path / "embedded", "--until", "2024-01-10", "--key-as", "who")
    ev.write(tmp_path / "call", ev.features(events, model=run, until="2024-01-10", key_as="who"))
    for name in ("later", "embedded"):
        assert pl.read_parquet(tmp_path / name).equals(pl.read_parquet(tmp_path / "call"))
    for arguments, code, sentence in (
        (("--model", run, "-o", files / "events.parquet"), 2, "is an input; name another file to write"),
        (
            ("--model", run, "--parts", "codes", "-o", tmp_path / "x"),
            2,
            "has no block 'codes' of events; accepted: handcrafted",
        ),
        ((*roles, "--parts", "code", "-o", tmp_path / "x"), 2, "there is no part 'code'; did you mean 'codes'"),
        (
            ("--model", run, "--save", tmp_path / "other", "-o", tmp_path / "x"),
            2,
            "save= (--save) is given together with model= (--model)",
        ),
        ((*roles, "--save", run, "-o", tmp_path / "x"), 1, "holds a model already; choose a new folder"),
    ):
        result = invoke("features", events, *arguments)
        assert (result.exit_code, sentence in " ".join(result.output.split())) == (code, True), result.output
        assert not (tmp_path / "x").exists()


def test_predict(files: Path, tmp_path: Path) -> None:
    run, events = ev.load(files / "run"), files / "events.parquet"
    ev.fine_tune(run, run.read(events), files / "people.parquet", "likes", epochs=1, out=tmp_path / "tuned")
    for name, arguments, options in (
        ("all", (), {}),
        ("until", ("--until", "2024-01-10", "--key-as", "who"), {"until": "2024-01-10", "key_as": "who"}),
    ):
        command, call = tmp_path / f"{name} command", tmp_path / f"{name} call"
        answer("predict", tmp_path / "tuned", events, "-o", command, "--device", "cpu", *arguments)
        ev.write(call, ev.predict(ev.load(tmp_path / "tuned"), events, **options))
        assert_same_tables(command, call)


def test_surprise(files: Path, tmp_path: Path) -> None:
    events, run = files / "events.parquet", tmp_path / "run"
    roles = ("--key", "customer", "--time", "when", "--set", "encoder.dim=8", "--epochs", 1, "--device", "cpu")
    answer("fit", "--events", events, *roles, "--method", "next_event", "--out", run)
    cutoffs = {"cutoffs": str(files / "people.parquet"), "cutoff_column": "decided"}
    for name, arguments, options in (
        ("all", (), {}),
        ("until", ("--until", "2024-01-10", "--key-as", "who"), {"until": "2024-01-10", "key_as": "who"}),
        ("cut", ("--cutoffs", files / "people.parquet", "--cutoff-column", "decided"), cutoffs),
    ):
        command, call = tmp_path / f"{name} command", tmp_path / f"{name} call"
        printed = answer("surprise", run, events, "-o", command, "--device", "cpu", *arguments)
        ev.write(call, ev.surprise(ev.load(run), events, **options))
        assert_same_tables(command, call)
        assert (printed["entities"], printed["events"]) == (60, pq.read_metadata(command).num_rows)
        columns = ["when", "surprise", "surprise_bought", "surprise_amount", "surprise_gap"]
        assert printed["columns"][-5:] == columns


@pytest.mark.parametrize("method", ["cresp", "cnp"])
def test_predict_at_places(files: Path, tmp_path: Path, method: str) -> None:
    events = files / "events.parquet"
    (tmp_path / "config.toml").write_text(
        f'[data]\npath = "{events}"\nkey = "customer"\ntime = "when"\n[method]\nname = "{method}"\ntargets = 2\n'
        '[encoder]\ndim = 8\nlayers = 0\n[encoder.events]\ncovariates = ["time", "bought"]\n'
        'observations = ["amount"]\n[fit]\nepochs = 1\n'
    )
    answer("fit", tmp_path / "config.toml", "--device", "cpu", "--out", tmp_path / "run")
    when = pl.Series("when", ["2024-01-05T10:00:00", "2024-03-01T12:00:00"]).str.to_datetime()
    places = pl.DataFrame({"when": when, "bought": ["tea", "coffee"]})
    places.write_parquet(tmp_path / "grid.parquet")
    places.with_columns(customer=pl.Series(["c07", "c01"])).write_parquet(tmp_path / "own.parquet")
    run = ev.load(tmp_path / "run")
    for at, arguments, options, rows in (
        ("grid", (), {}, 120),
        ("own", ("--until", "2024-01-10", "--key-as", "who"), {"until": "2024-01-10", "key_as": "who"}, 2),
    ):
        command, call, at_path = tmp_path / f"{at} command", tmp_path / f"{at} call", tmp_path / f"{at}.parquet"
        printed = answer(
            "predict", tmp_path / "run", events, "--at", at_path, "-o", command, "--device", "cpu", *arguments
        )
        ev.write(call, ev.predict(run, events, at=at_path, **options))
        assert_same_tables(command, call)
        assert printed["rows"] == rows
        assert json.loads(pq.read_schema(command).metadata[b"eventvec"])["run"] == run.id
        outputs = ["prediction"] if method == "cresp" else ["amount_mean", "amount_std"]
        assert printed["columns"] == ["who" if options else "customer", "when", "bought", *outputs]


def test_update_and_forget(files: Path, tmp_path: Path) -> None:
    run = ev.load(files / "run")
    state = {name: tmp_path / f"{name}.db" for name in ("command", "call")}
    late = files / "history.parquet"
    for step, (events, arguments, options) in enumerate(
        [
            (files / "history.parquet", ("--batch-id", "first"), {"batch_id": "first"}),
            (files / "batch.parquet", ("--key-as", "who"), {"key_as": "who"}),
            (files / "batch.parquet", (), {}),  # again: nothing is applied
            (
                late,
                ("--late", "drop", "--keep", 5, "--batch-id", "late"),
                {"late": "drop", "keep": 5, "batch_id": "late"},
            ),
        ]
    ):
        command, call = tmp_path / f"{step} command", tmp_path / f"{step} call"
        files_and_place = ("--state", state["command"], "-o", command, "--device", "cpu")
        printed = answer("update", files / "run", events, *files_and_place, *arguments)
        updated = ev.update(run, events, state["call"], **options)
        ev.write(call, updated.embeddings)
        assert_same_tables(command, call)
        counts = {"entities": len(updated.embeddings), "new": updated.new, "late": updated.late}
        assert counts.items() <= printed.items()
        assert printed["applied"] == updated.applied
    answer("update", files / "run", "--state", state["command"], "--forget", "c07")
    ev.forget(state["call"], "c07", run.states_of)
    events = pl.read_parquet(files / "history.parquet").filter(pl.col("customer") == "c07")
    events.write_parquet(tmp_path / "c07.parquet")
    printed = answer(
        "update", files / "run", tmp_path / "c07.parquet", "--state", state["command"], "-o", tmp_path / "command",
        "--device", "cpu",
    )  # fmt: skip
    updated = ev.update(run, tmp_path / "c07.parquet", state["call"])
    ev.write(tmp_path / "call", updated.embeddings)
    assert printed["new"] == updated.new == 1
    assert_same_tables(tmp_path / "command", tmp_path / "call")


def test_labels(files: Path, tmp_path: Path) -> None:
    events, roles = files / "events.parquet", ("--key", "customer", "--time", "when")
    data = ev.read(events, **COLUMNS, key_as="who", categorical=["bought"], numeric=["amount"])
    for arguments, options in (
        ((), {}),
        (
            (
                "--label",
                "count",
                "--where",
                "bought=tea",
                "--where",
                "bought=coffee",
                "--where",
                "amount<1",
                "--gap",
                0,
            ),
            {"label": "count", "where": {"bought": ["tea", "coffee"], "amount": "<1"}, "gap": "0"},
        ),
        (
            ("--label", "sum:amount", "--zone", "Europe/Berlin", "--observed-until", "2024-01-15", "--name", "spent"),
            {"label": "sum:amount", "zone": "Europe/Berlin", "observed_until": "2024-01-15", "name": "spent"},
        ),
    ):
        command, call = tmp_path / f"{len(arguments)} command", tmp_path / f"{len(arguments)} call"
        printed = answer(
            "labels", events, *roles, "--key-as", "who", "--every", "1d", "--horizon", "3d", "-o", command, *arguments
        )
        labels = ev.future_labels(data, every="1d", horizon="3d", **options)
        ev.write(call, labels)
        table, other = pq.read_table(command), pq.read_table(call)
        assert table.equals(other)
        described, others = (json.loads(each.schema.metadata[b"eventvec"]) for each in (table, other))
        assert (described["notes"], described["censored"]) == (others["notes"], printed["censored"])
        label = options.get("name", options.get("label", "no_event"))
        assert printed["columns"] == ["who", "when", label, "known_at", "rule"]
        assert printed["rows"] == len(labels)


@pytest.mark.parametrize(
    ("arguments", "options", "boosting"),
    [
        (
            ("--fractions", "1,0.5", "--folds", 2, "--no-label-time"),
            {"fractions": [1.0, 0.5], "folds": 2, "label_time": "none"},
            False,
        ),
        (
            ("--models", "lightgbm", "--folds", 2, "--no-label-time"),
            {"models": ["lightgbm"], "folds": 2, "label_time": "none"},
            True,
        ),
        (("--holdout", "--label-time", "late", "--seed", 3), {"holdout": True, "label_time": "late", "seed": 3}, False),
        (
            ("--group", "shop", "--folds", 2, "--label-time", "late", "--models", "knn"),
            {"group": "shop", "folds": 2, "label_time": "late", "models": ["knn"]},
            False,
        ),
        (
            ("--task", "multiclass", "--label-time", "late", "--folds", 2, "--models", "knn"),
            {"task": "multiclass", "label_time": "late", "folds": 2, "models": ["knn"]},
            False,
        ),
        (("--label-time", "late", "--until", "2024-02-01"), {"label_time": "late", "until": "2024-02-01"}, False),
    ],
)
def test_evaluate(
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[object, ...],
    options: dict[str, Any],
    boosting: bool,
) -> None:
    if not boosting:  # faster
        monkeypatch.setitem(sys.modules, "lightgbm", None)
    labels = tmp_path / "labels.parquet"
    people = pl.read_parquet(files / "people.parquet").rename({"customer": "person"})
    people.with_columns(late=pl.lit("2024-03-01").str.to_datetime()).write_parquet(labels)
    run, events, z = ev.load(files / "run"), files / "events.parquet", tmp_path / "z.parquet"
    ev.write(z, run.embed(events))
    printed = answer("evaluate", z, labels, "--label", "likes", "--key", "person", "--events", events, *arguments)
    evaluation = ev.evaluate(run.embed(events), run.read(events), labels, "likes", key="person", **options)
    assert printed == json.loads(json.dumps(evaluation.to_dict()))
    alone = answer("evaluate", z, labels, "--label", "likes", "--key", "person", *arguments)
    evaluation = ev.evaluate(ev.read_embeddings(z), None, labels, "likes", key="person", **options)
    assert alone == json.loads(json.dumps(evaluation.to_dict()))
    sets = {result["features"] for result in alone["results"]}
    assert sets == {"embedding", "embedding: learned"}


def test_evaluate_labels_at_several_times(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    people, months = pl.read_parquet(files / "people.parquet"), [f"2024-01-{day:02}" for day in (6, 10, 14)]
    labels = people.join(
        pl.DataFrame({"month": months}).select(pl.col("month").str.to_date()), how="cross"
    ).with_row_index("weight", 1)
    labels = labels.with_columns(old=pl.col("age") > 0)
    labels.write_csv(tmp_path / "labels.csv")
    run, events, z, table = (
        ev.load(files / "run"),
        files / "events.parquet",
        tmp_path / "z.parquet",
        tmp_path / "labels.csv",
    )
    cutoffs = ("--cutoffs", table, "--cutoff-column", "month")
    printed = answer("embed", files / "run", events, *cutoffs, "-o", z, "--device", "cpu")
    assert (printed["entities"], printed["rows"]) == (60, 180)
    python = run.embed(events, cutoffs=table, cutoff_column="month")
    ev.write(tmp_path / "python.parquet", python)
    assert_same_tables(z, tmp_path / "python.parquet")
    for split in ((), ("--split-at", "2024-01-12", "--gap", "3d"), ("--split-at", "2024-01-12", "--both-sides")):
        printed = answer(
            "evaluate", z, table, "--label", "likes", "--label", "old", "--label-time", "month", "--weight", "weight",
            "--events", events, "--models", "logistic_regression", "--folds", 2, *split,
        )  # fmt: skip
        options: dict[str, Any] = {"split_at": "2024-01-12"} if split else {}
        options |= {"gap": "3d"} if "--gap" in split else {"both_sides": True} if split else {}
        evaluation = ev.evaluate(
            python, run.read(events), labels, ["likes", "old"], label_time="month", weight="weight",
            models=["logistic_regression"], folds=2, **options,
        )  # fmt: skip
        assert printed == json.loads(json.dumps(evaluation.to_dict()))
        assert (printed["protocol"], printed["metric"]) == ("date" if split else "cross-validation", "macro_auroc")
        assert (printed["n"], printed["entities"]) == (120 if "--gap" in split else 180, 60)
