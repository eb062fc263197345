"""An untrained encoder as a baseline: it is built, embeds and is evaluated, without a method and without `fit`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import torch

import eventvec as ev
from eventvec.config import build_encoder

SIZE = 120


def frames() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return events of entities with two habits, and the habit of each entity."""
    rng = np.random.default_rng(0)
    habit = rng.integers(0, 2, SIZE)
    codes = np.where(rng.random((SIZE, 12)) < 0.8, habit[:, None], rng.integers(0, 3, (SIZE, 12)))
    events = pl.DataFrame(
        {
            "id": np.repeat(np.arange(SIZE), 12),
            "t": np.tile(np.arange(12), SIZE),
            "code": codes.reshape(-1).astype(str),
            "amount": rng.normal(100, 15, SIZE * 12),
        }
    )
    return events, pl.DataFrame({"id": np.arange(SIZE), "habit": habit})


def test_an_untrained_encoder_embeds_and_is_evaluated(tmp_path: Path) -> None:
    events, labels = frames()
    data = ev.read(events, key="id", time="t", categorical=["code"], numeric=["amount"])
    torch.manual_seed(0)
    encoder = build_encoder({"name": "gru", "dim": 16}, data.schema)
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    z = ev.embed(encoder, data)
    ev.write(tmp_path / "z.parquet", z)
    assert pl.read_parquet(tmp_path / "z.parquet").columns == ["id", "embedding", "events", "last_time"]
    result = ev.evaluate(z, data, labels, "habit", models=["logistic_regression"])
    assert result.basis.get("embedding", "logistic_regression").main.mean > 0.7  # random states separate the habits
    assert all(torch.equal(before[name], value) for name, value in encoder.state_dict().items())
    torch.manual_seed(0)
    rebuilt = build_encoder({"name": "gru", "dim": 16}, data.schema)
    assert np.array_equal(ev.embed(rebuilt, data).values, z.values)


def test_numbers_are_scaled_by_the_schema_alone() -> None:
    events, _ = frames()
    data = ev.read(events, key="id", time="t", categorical=["code"], numeric=["amount"])
    encoder = build_encoder({"name": "gru", "dim": 16}, data.schema).eval()
    norm = encoder.events.norm
    assert norm.running_mean.tolist() == [0, 0]  # initial statistics, which change nothing
    assert norm.running_var.tolist() == [1, 1]
    numbers = encoder.events(data.sequences)[:, -4:-2]  # gap and amount, before their indicators of missing values
    amount = data.schema.numeric[0].scale(data.sequences.values("amount"))
    torch.testing.assert_close(numbers[:, 1], amount, rtol=1e-4, atol=1e-4)
