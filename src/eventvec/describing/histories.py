"""What templates of sentences read: a table of events, and one of histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import polars as pl
import torch

from eventvec.dataset import Dataset
from eventvec.schema import Schema
from eventvec.sequences import Array

WITHOUT_WORDS = ("(missing)", "(unknown)")
"""What stands for codes that are no value; sentences leave them out."""
FEWEST_HISTORIES = 20
"""The smallest number of histories with which one is compared."""

Limits: TypeAlias = Mapping[str, Sequence[float]]
"""Four numbers for each column of numbers, with which histories are compared: the quarter and the three-quarter
quantile of all its numbers, and the first and the last decile of its means over a history."""


@dataclass(frozen=True, eq=False)
class Histories:
    """Histories as tables, and the words for their columns and codes.

    Args:
        events: One row per event, in order: `row` (the history), `place` (0 for its first event), `time` (microseconds
            for calendar times), `since` (time since the first event), `gap` (time since the event before, null for the
            first), `part` (0, 1 or 2: the third of the history's time), `late` (whether it lies in the second half of
            the time), and as `event: NAME` the columns of the schema: codes in the user's words, and numbers. `values`
            has these events with one of the columns as `value`.
        rows: One row per history with events: `row`, `n` (its events) and `span` (the time from the first to the last).
        schema: What the columns mean.
        words: What stands for names of columns and for codes in sentences.
        limits: The numbers with which histories are compared; without those of columns that too few histories have.
        n: The number of histories with events.
    """

    events: pl.DataFrame
    rows: pl.DataFrame
    schema: Schema
    words: Mapping[str, str]
    limits: Limits

    @property
    def n(self) -> int:
        """The number of histories with events."""
        return self.rows.height

    @property
    def codes(self) -> list[str]:
        """The columns of codes whose values are known; those of hashed columns are not."""
        return [field.name for field in self.schema.categorical if not field.buckets]

    @property
    def numbers(self) -> list[str]:
        """The columns of numbers."""
        return [field.name for field in self.schema.numeric]

    def values(self, name: str) -> pl.DataFrame:
        """Return the events that have a value of a column of the schema, with it as `value`."""
        column = pl.col(f"event: {name}")
        known = ~column.is_in(WITHOUT_WORDS) if name in self.codes else column.is_not_null()
        return self.events.filter(known).with_columns(value=column)

    def word(self, name: str) -> str:
        """Return what stands for the name of a column."""
        return self.words.get(name, name)

    @staticmethod
    def of(data: Dataset, words: Mapping[str, str], limits: Limits | None = None) -> Histories:
        """Return the histories of a data set.

        Args:
            data: The histories.
            words: What stands for names of columns and for codes.
            limits: The `limits` of other histories, with which these are compared; by default they are computed from
                these, for columns of which at least 20 histories have a number. They can be kept as JSON.
        """
        events = _events(data, words)
        rows = events.group_by("row", maintain_order=True).agg(n=pl.len().cast(pl.Int64), span=pl.col("since").last())
        histories = Histories(events, rows, data.schema, words, limits or {})
        return histories if limits is not None else replace(histories, limits=histories._limits())

    def _limits(self) -> Limits:
        """Return the limits of these histories."""
        limits = {}
        for name in self.numbers:
            present = self.values(name)
            means = present.group_by("row").agg(mean=pl.col("value").mean())["mean"]
            if len(means) >= FEWEST_HISTORIES:
                quantiles = [(present["value"], 0.25), (present["value"], 0.75), (means, 0.1), (means, 0.9)]
                limits[name] = [float(values.quantile(q, "linear") or 0) for values, q in quantiles]
        return limits


def _events(data: Dataset, words: Mapping[str, str]) -> pl.DataFrame:
    """Return one row per event, in order."""
    x, schema = data.sequences.to("cpu"), data.schema
    lengths = x.lengths
    rows = torch.arange(len(x)).repeat_interleave(lengths)
    begins = (lengths.cumsum(0) - lengths)[rows]
    time = x.values("time")
    columns: dict[str, Array | pl.Series] = {
        "row": rows.numpy(), "place": (torch.arange(len(rows)) - begins).numpy(), "time": time.numpy(),
    }  # fmt: skip
    for field in schema.categorical:
        if not field.buckets:
            texts = [*WITHOUT_WORDS, *(words.get(value, value) for value in field.values)]
            distinct = {text: place for place, text in enumerate(dict.fromkeys(texts))}  # words may join codes
            places = np.array([distinct[text] for text in texts])[x.values(field.name).long().numpy()]
            columns[f"event: {field.name}"] = pl.Series(list(distinct), dtype=pl.Enum(list(distinct))).gather(places)
    for numeric in schema.numeric:
        columns[f"event: {numeric.name}"] = pl.Series(x.values(numeric.name).double().numpy()).fill_nan(None)
    first, last = pl.col("time").first().over("row"), pl.col("time").last().over("row")
    since, span = pl.col("time") - first, last - first
    return pl.DataFrame(columns).with_columns(
        since=since,
        gap=pl.when(pl.col("place") > 0).then(pl.col("time").diff()),
        part=(3 * since >= span).cast(pl.Int8) + (3 * since >= 2 * span).cast(pl.Int8),
        late=2 * since >= span,
    )
