"""A query in a person's words, with the rule that says which histories it means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Query:
    """What a person asks for, and the histories that are meant.

    Args:
        text: The question.
        rule: An expression over the events of one history, in order, that is true if the history is relevant.

    Example:
        >>> query = Query("came back", pl.len() > 1)
        >>> relevant([query], pl.DataFrame({"card": [1, 1, 2], "day": [1, 5, 2]}), "card").tolist()
        [[True, False]]
    """

    text: str
    rule: pl.Expr


def relevant(queries: Sequence[Query], events: pl.DataFrame, key: str) -> Array:
    """Return `(queries, histories)` whether each history is relevant, with histories by ascending key.

    A rule that has no answer, such as the mean of no events, is not met.

    Args:
        queries: The queries.
        events: One row per event, with the columns that the rules read, in the order of time within a key.
        key: The column that names the history.
    """
    rules = [query.rule.fill_null(value=False).alias(str(place)) for place, query in enumerate(queries)]
    table = events.group_by(key, maintain_order=True).agg(rules).sort(key)
    return table.drop(key).to_numpy().T.astype(bool)


def share(condition: pl.Expr) -> pl.Expr:
    """Return the share of the events that meet a condition."""
    return condition.mean()


def number(condition: pl.Expr) -> pl.Expr:
    """Return the number of events that meet a condition."""
    return condition.sum()
