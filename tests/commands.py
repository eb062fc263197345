"""Shared by tests of commands: calls in this process, and tables of purchases."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
from click.testing import Result
from typer.testing import CliRunner

from eventvec.cli import app


def invoke(*arguments: object) -> Result:
    """Return the result of a command."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def answer(*arguments: object) -> dict[str, Any]:
    """Return the JSON that a command prints."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    values: dict[str, Any] = json.loads(result.stdout)
    return values


def purchases(customers: list[str], events: int) -> pl.DataFrame:
    """Return purchases in random order: the first customer, the third and so on mostly buy tea, the others coffee."""
    n, rng = len(customers), np.random.default_rng(0)
    tea = np.arange(n) % 2 == 0
    bought = np.where(rng.random((n, events)) < np.where(tea, 0.8, 0.2)[:, None], "tea", "coffee")
    times = np.datetime64("2024-01-01T10:00", "us") + np.arange(events) * np.timedelta64(36, "h")
    return pl.DataFrame(
        {
            "customer": np.repeat(customers, events),
            "when": np.tile(times, n),
            "bought": bought.reshape(-1),
            "amount": rng.exponential(size=n * events),
        }
    ).sample(fraction=1, shuffle=True, seed=1)


def customer_labels(customers: list[str]) -> pl.DataFrame:
    """Return whether each customer likes tea, and the shop of each, with ten customers per shop."""
    places = np.arange(len(customers))
    return pl.DataFrame({"customer": customers, "likes": places % 2 == 0, "shop": places // 10})
