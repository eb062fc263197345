"""What onnxruntime predicts from a file is what `predict` gives: classes, numbers, several labels, after states."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import polars as pl
import pytest
import torch
from benchmarks.without_torch import inputs

import eventvec as ev
import make
import updates
from eventvec.methods import Supervised
from eventvec.schema import Categorical, Numeric

STATIC = (*make.schema().static, Categorical("churn", ("no", "yes")), Numeric("income", log=True, mean=2.0, std=0.5))


def supervised(label: str | tuple[str, ...], temperatures: dict[str, float] | None = None, **options: Any) -> ev.Model:
    """Return a run of `supervised` with random weights and running statistics."""
    schema = replace(make.schema(), static=STATIC)
    method = Supervised(make.encoder("gru"), schema, label, **options)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        for weight in [*method.head.parameters(), *(method.inputs.parameters() if method.inputs else ())]:
            torch.nn.init.normal_(weight)
        if options.get("batch_norm"):
            torch.nn.init.uniform_(method.head[0].running_var, 0.5, 2.0)
            torch.nn.init.normal_(method.head[0].running_mean)
    info = {**updates.untrained().info, "temperatures": temperatures or {}}
    return updates.with_method(updates.untrained(), method.eval(), schema=schema, info=info)


def by_graph(run: ev.Model, data: ev.Dataset, folder: Path, split: bool = False) -> dict[str, np.ndarray]:
    """Return the predictions of the file by label; if they are split, of a beginning and then of the rest of rows."""
    about = ev.to_onnx(run, folder / "run.onnx")
    session, x, before = onnxruntime.InferenceSession(folder / "run.onnx"), data.sequences, None
    if split:
        half = x.lengths // 2
        begun = x.slice(torch.arange(len(x)), torch.zeros_like(half), half)
        before = session.run(["new_state", "new_seen", "new_last_time"], inputs(session, begun))
        x = x.slice(torch.arange(len(x)), half, x.lengths - half)
    names = [f"prediction.{label['name']}" for label in about["labels"]]
    values = session.run(names, inputs(session, x, before))
    return {name.removeprefix("prediction."): value for name, value in zip(names, values, strict=True)}


def by_predict(run: ev.Model, data: ev.Dataset) -> dict[str, np.ndarray]:
    """Return the predictions of `predict` by label, probabilities side by side."""
    table, expected = ev.predict(run, data), {}
    for target in run.method.label_fields:
        prefix = "" if len(run.method.label_fields) == 1 else f"{target.name}_"
        values = getattr(target, "values", None)
        names = [f"{prefix}prediction"] if values is None else [f"{prefix}p_{value}" for value in values]
        columns = np.stack([table.column(name).to_numpy() for name in names], 1)
        expected[target.name] = columns[:, 0] if values is None else columns
    return expected


def check(run: ev.Model, data: ev.Dataset, folder: Path) -> None:
    expected = by_predict(run, data)
    for split in (False, True):
        results = by_graph(run, data, folder, split)
        assert results.keys() == expected.keys()
        for name, values in results.items():
            assert values.shape == expected[name].shape
            assert values.dtype == np.float32
            np.testing.assert_allclose(values, expected[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("temperatures", [{}, {"churn": 3.0, "kind": 0.25}], ids=["raw", "calibrated"])
@pytest.mark.parametrize("label", ["churn", "kind", "level", "income", ("churn", "income", "kind", "level")], ids=str)
def test_predictions(label: str | tuple[str, ...], temperatures: dict[str, float], tmp_path: Path) -> None:
    run = supervised(label, temperatures, batch_norm="kind" in label)
    check(run, ev.read(updates.table(), schema=replace(run.schema, static=())), tmp_path)


def test_the_metadata_name_the_classes(tmp_path: Path) -> None:
    about = ev.to_onnx(supervised(("kind", "level")), tmp_path / "run.onnx")
    kind = {"name": "kind", "kind": "classes", "classes": ["k0", "k1", "k2"]}
    assert json.loads(json.dumps(about["labels"])) == [kind, {"name": "level", "kind": "number"}]
    assert ev.to_onnx(updates.untrained(), tmp_path / "run.onnx")["labels"] == []


def test_static_columns_are_read_beside_the_events(tmp_path: Path) -> None:
    run = supervised("churn", static_inputs=["kind", "level"])
    rng, events = np.random.default_rng(0), updates.table()
    keys = events["id"].unique().sort()
    kind = [("k0", "k2", "other", None)[i] for i in rng.integers(0, 4, len(keys))]
    level = [None if i % 4 == 0 else float(v) for i, v in enumerate(rng.normal(size=len(keys)))]
    people = pl.DataFrame({"id": keys, "kind": kind, "level": level}, schema_overrides={"level": pl.Float32})
    data = ev.read(events, schema=replace(run.schema, static=run.schema.static[:2]), static=people)
    check(run, data, tmp_path)
    about = ev.to_onnx(run, tmp_path / "run.onnx")
    assert [(column["name"], column["kind"]) for column in about["static"]] == [("kind", "codes"), ("level", "numbers")]


def test_the_label_is_predicted_from_the_trained_part_alone(tmp_path: Path) -> None:
    run = supervised("churn")
    data = ev.read(updates.table(), schema=replace(run.schema, static=()))
    check(updates.with_beside(run, ["timing", "aggregates"], data.sequences), data, tmp_path)


def test_a_fine_tuned_run_predicts_calibrated_probabilities(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    events = pl.DataFrame({"id": np.arange(3000) % 600, "t": range(3000), "amount": rng.normal(size=3000)})
    total = events.group_by("id", maintain_order=True).agg(pl.col("amount").sum())
    labels = total.select("id", churn=pl.col("amount") + pl.Series(rng.normal(size=600)) > 1)
    data = ev.read(events, key="id", time="t", numeric=["amount"])
    run = ev.fine_tune(ev.fit(data, method="ocp", epochs=1), data, labels, "churn", epochs=3)
    assert run.info["temperatures"].keys() == {"churn"}
    check(run, data, tmp_path)
