"""The checkpoint of TPP-Embedding with the best mean reciprocal rank on held-out rows is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
import torch

import backbones
import make
from commands import answer
from eventvec import models
from eventvec.dataset import Dataset, text_column
from eventvec.embedding import encode
from eventvec.methods.retrieval import mean_reciprocal_rank
from eventvec.methods.tpp_embedding import TPPEmbedding
from eventvec.models import Record
from eventvec.sequences import Sequences
from eventvec.training import FitOptions, fit
from eventvec.training.validation import split

SETTINGS: dict[str, Any] = {"epochs": 6, "batch_size": 16, "lr": 0.01, "validation": 0.4, "schedule": "constant"}


def problem(n: int = 80) -> Dataset:
    """Return histories of three of eight codes, with descriptions that name these codes and a domain."""
    codes = torch.randint(0, 8, (n, 3), generator=torch.Generator().manual_seed(0))
    data = make.dataset([3] * n)
    x = data.sequences
    column = torch.zeros_like(x.columns["code"]).index_copy(0, x.flat(), (2 + codes).flatten().int())
    notes = text_column(pa.array([" ".join(f"v{code}" for code in row) for row in codes.tolist()]))
    static = {**x.static, "note": notes, "kind": torch.arange(n) % 3 + 2}
    return replace(
        data, sequences=Sequences({**x.columns, "code": column}, x.starts, x.lengths, static), schema=make.schema(8)
    )


def collapsing(data: Dataset) -> TPPEmbedding:
    """Return a method that draws all vectors together: its loss also falls if descriptions do not find histories."""
    return TPPEmbedding(backbones.encoder(data.schema, lora=0, unit=1e12), "note", objective="mse")


def mrr(method: TPPEmbedding, x: Sequences) -> float:
    return mean_reciprocal_rank(encode(method.text, x), encode(method.encoder, x))


def stop_at(step: int) -> Callable[[Record], None]:
    """Return a `progress` that interrupts a training."""

    def stop(record: Record) -> None:
        if record["step"] == step and record["validation"] is None:
            raise KeyboardInterrupt

    return stop


def test_the_epoch_with_the_best_score_is_kept_and_not_that_with_the_lowest_loss():
    data, method = problem(), collapsing(problem())
    run = fit(data, method=method, **SETTINGS)
    losses, scores = ([record[entry] for record in run.history] for entry in ("validation", "validation_mrr"))
    best = scores.index(max(scores))
    assert losses.index(min(losses)) == 5 > best
    assert (run.kept_epoch, run.config["fit"]["keep"]) == (best + 1, "best")
    sentence = f"epoch {best + 1} of 6, whose validation mrr {scores[best]:.3g} was the highest; that of the last is"
    assert any(f"{sentence} {scores[5]:.3g}" in note for note in run.notes)
    (_, held_out, _), _ = split(method, data.sequences, FitOptions(**SETTINGS))  # two batches, searched together
    assert mrr(method, data.sequences[held_out]) == pytest.approx(scores[best], abs=1e-6)

    last = fit(data, method=collapsing(data), **SETTINGS, keep="last")
    assert last.kept_epoch is None
    assert [record["validation_mrr"] for record in last.history] == scores  # only the weights at the end differ


def test_all_domains_are_searched_together():
    x = problem(12).sequences
    method = TPPEmbedding(backbones.encoder(make.schema(8), unit=1e8), "note", domain="kind").eval()
    with torch.no_grad():
        assert method.validation_score(iter([x[:5], x[5:]])) == pytest.approx(mrr(method, x))


def test_a_run_resumed_after_its_best_epoch_has_the_weights_of_an_uninterrupted_one(tmp_path: Path):
    data = problem()
    whole = fit(data, method=collapsing(data), **SETTINGS)
    path = interrupted(data, tmp_path / "run", 3 * whole.kept_epoch + 3)  # in the epoch after the best one
    resumed = fit(data, method=collapsing(data), **SETTINGS, out=path, resume=True)
    assert resumed.kept_epoch == models.load(path).kept_epoch == whole.kept_epoch < 6
    assert torch.equal(encode(resumed.encoder, data.sequences), encode(whole.encoder, data.sequences))
    lines = (path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["validation_mrr"] for line in lines] == [r["validation_mrr"] for r in whole.history]


def test_the_command_prints_the_score_of_the_epoch_whose_weights_are_kept(tmp_path: Path):
    codes = torch.randint(0, 8, (80, 3), generator=torch.Generator().manual_seed(0)).tolist()
    events = {
        "id": [i for i in range(80) for _ in range(3)],
        "t": [0, 1, 2] * 80,
        "code": [f"v{c}" for c in chain(*codes)],
    }
    pl.DataFrame(events).write_parquet(tmp_path / "events.parquet")
    notes = pl.DataFrame({"id": range(80), "note": [" ".join(f"v{code}" for code in row) for row in codes]})
    notes.write_parquet(tmp_path / "notes.parquet")
    tables = {
        "data.static_columns.note": "text", "method.description": "note", "method.objective": "mse",
        "encoder.backbone": backbones.folder(), "encoder.text": "code", "encoder.lora": 0,
        "fit.lr": 0.01, "fit.batch_size": 16, "fit.validation": 0.4, "fit.schedule": "constant",
    }  # fmt: skip
    settings = [part for name, value in tables.items() for part in ("--set", f"{name}={value}")]
    columns = ("--key", "id", "--time", "t", "--categorical", "code", "--static", tmp_path / "notes.parquet")
    fit_ = ("fit", "--events", tmp_path / "events.parquet", *columns, "--method", "tpp_embedding", *settings)
    summary = answer(*fit_, "--epochs", 6, "--device", "cpu", "--out", tmp_path / "run")
    history = models.load(tmp_path / "run").history
    scores = [record["validation_mrr"] for record in history]
    assert summary["validation_mrr"] == max(scores)
    assert summary["epoch"] == 1 + scores.index(max(scores))


def interrupted(data: Dataset, path: Path, step: int, **options: Any) -> Path:
    """Return the folder of a run whose training was interrupted after a step, at its last checkpoint."""
    settings = {**SETTINGS, **options, "checkpoint_every": 1, "progress": stop_at(step)}
    with pytest.raises(KeyboardInterrupt):
        fit(data, method=collapsing(data), out=path, **settings)
    return path
