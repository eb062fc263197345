"""What templates of sentences read: a table of events, and one of histories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import polars as pl

from eventvec.dataset import Dataset
from eventvec.schema import Schema
from eventvec.sequences import Array

AS_WRITTEN: Mapping[str, str] = MappingProxyType({})
"""The words with which names of columns and codes stand as they are."""
WITHOUT_WORDS = (_, UNKNOWN) = ("(missing)", "(unknown)")
"""What stands for a missing code, and for codes that the schema does not have; no sentence names them."""
FEWEST_HISTORIES = 20
"""The smallest number of histories with which one is compared."""

BLOCK = 1 << 22
"""The number of events about which sentences are made at once."""
FREQUENT, OFTEN = 10, 3
"""The largest number of codes of a history that most facts are about, and the fewest events of each."""
APART = 0.5
"""The least share of the variance of a number's ranks that lies between codes in a table of (parameter, value)."""

Limits: TypeAlias = Mapping[str, Sequence[float]]
"""Numbers with which histories are compared. For each column of numbers, or each code of a table of (parameter, value)
as `column: code`, there are four: the first and the third quartile of all its numbers, and the first and the last
decile of its means over a history. `column, by codes` has the share of the variance of its ranks between codes."""


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
        words: What stands for names of columns and for codes in sentences; None where codes are numbered.
        limits: The numbers with which histories are compared; without those of columns that too few histories have.
        n: The number of histories with events.
    """

    events: pl.DataFrame
    rows: pl.DataFrame
    schema: Schema
    words: Mapping[str, str] | None
    limits: Limits
    _frequent: dict[str, pl.DataFrame] = field(default_factory=dict, init=False, repr=False)

    @property
    def n(self) -> int:
        """The number of histories with events."""
        return self.rows.height

    def blocks(self) -> Iterator[Histories]:
        """Yield these histories in blocks of whole ones, of about `BLOCK` events."""
        ends = self.rows["n"].cum_sum()
        block = ((ends - 1) // BLOCK).to_numpy()
        edges = np.flatnonzero(np.diff(block, prepend=-1, append=block[-1:] + 1))
        for first, beyond in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            start = 0 if first == 0 else ends[first - 1]
            events = self.events.slice(start, ends[beyond - 1] - start)
            yield replace(self, events=events, rows=self.rows.slice(first, beyond - first))

    @property
    def codes(self) -> list[str]:
        """The columns of codes whose values are known; those of hashed columns are not."""
        return [field.name for field in self.schema.categorical if not field.buckets]

    @property
    def numbers(self) -> list[str]:
        """The columns of numbers."""
        return [field.name for field in self.schema.numeric]

    @property
    def parameters(self) -> str | None:
        """The column of parameters if the table is one of (parameter, value), with numbers that differ by parameter.

        It is the only column of codes beside the only one of numbers, and at least half of the variance of the ranks of
        all numbers lies between its codes.
        """
        column = self.schema.parameters
        if column is None or column.buckets:
            return None
        (apart,) = self.limits.get(f"{self.numbers[0]}, by {column.name}", (0.0,))
        return column.name if apart >= APART else None

    def values(self, name: str) -> pl.DataFrame:
        """Return the events that have a value of a column of the schema, with it as `value`."""
        column = pl.col(f"event: {name}")
        known = ~column.is_in(WITHOUT_WORDS) if name in self.codes else column.is_not_null()
        return self.events.filter(known).with_columns(value=column)

    def counts(self, name: str) -> pl.DataFrame:
        """Return a row per history and code: `row`, `value`, `k` events, `rank` (0: most frequent), `n` and `span`.

        `known` is the number of the history's events with one of the codes, and `unknown` of those with another one.
        """
        counts = self.values(name).group_by("row", "value").agg(k=pl.len().cast(pl.Int64))
        counts = counts.sort("row", "k", "value", descending=[False, True, False])
        other = self.events.filter(pl.col(f"event: {name}") == UNKNOWN).group_by("row")
        counts = counts.with_columns(rank=pl.int_range(pl.len()).over("row"), known=pl.col("k").sum().over("row"))
        counts = counts.join(self.rows, on="row", maintain_order="left")
        counts = counts.join(other.agg(unknown=pl.len().cast(pl.Int64)), on="row", how="left", maintain_order="left")
        return counts.with_columns(pl.col("unknown").fill_null(0))

    def settled(self, name: str) -> pl.DataFrame:
        """Return the events, with a code as `value` if all events of the history at the time have it, else null."""
        column = pl.col(f"event: {name}")
        alone = (column.n_unique().over("row", "time") == 1) & ~column.is_in(WITHOUT_WORDS)
        return self.events.with_columns(value=pl.when(alone).then(column))

    def frequent_codes(self, name: str) -> pl.DataFrame:
        """Return the rows of `counts` of the ten most frequent codes of a history, with at least three events each."""
        if name not in self._frequent:  # most templates read it
            often = (pl.col("rank") < FREQUENT) & (pl.col("k") >= OFTEN)
            self._frequent[name] = self.counts(name).filter(often)
        return self._frequent[name]

    def frequent(self, name: str) -> pl.DataFrame:
        """Return the events, in order, with one of the codes of `frequent_codes`, and what it has of the code."""
        events = self.events.select("row", "time", "since", "part", "late", value=f"event: {name}")
        return events.join(self.frequent_codes(name), on=["row", "value"], maintain_order="left")

    def measured(self, name: str) -> pl.DataFrame:
        """Return the events with a number: `row`, `time`, `value`, and `code`, that with which numbers are compared.

        In a table of (parameter, value), a history has at least three numbers with a code. Elsewhere codes are empty.
        """
        if (codes := self.parameters) is None:
            return self.values(name).select("row", "time", "value", code=pl.lit("", pl.Enum([""])))
        events = self.values(name).select("row", "time", "value", code=f"event: {codes}")
        enough = pl.len().over("row", "code") >= OFTEN
        return events.filter(~pl.col("code").is_in(WITHOUT_WORDS)).filter(enough)

    def compared(self, name: str) -> pl.DataFrame:
        """Return the rows of `measured` that have limits: `low` and `high`, and `lowest` and `highest` of means."""
        numbers = self.measured(name)
        codes = numbers["code"].unique()
        limits = [self.limits.get(self._limit_of(name, code), (None,) * 4) for code in codes]
        table = pl.DataFrame(
            limits, schema=dict.fromkeys(("low", "high", "lowest", "highest"), pl.Float64), orient="row"
        )
        return numbers.join(table.with_columns(code=codes).drop_nulls(), on="code", maintain_order="left")

    def _limit_of(self, name: str, code: str) -> str:
        """Return the name of the limits of a number, or of the numbers with a code."""
        return name if self.parameters is None else f"{name}: {code}"

    def word(self, name: str) -> str:
        """Return what stands for the name of a column."""
        return (self.words or AS_WRITTEN).get(name, name)

    @staticmethod
    def of(data: Dataset, words: Mapping[str, str] | None, limits: Limits | None = None) -> Histories:
        """Return the histories of a data set.

        Args:
            data: The histories.
            words: What stands for names of columns and for codes; with None, codes are numbered.
            limits: The `limits` of other histories, with which these are compared; by default they are computed from
                these, for columns of which at least 20 histories have a number. They can be kept as JSON.
        """
        events = _events(data, words)
        rows = events.group_by("row", maintain_order=True).agg(n=pl.len().cast(pl.Int64), span=pl.col("since").last())
        histories = Histories(events, rows, data.schema, words, limits or {})
        if limits is not None:
            return histories
        histories = replace(histories, limits=histories._between_codes())
        return replace(histories, limits={**histories.limits, **histories._limits()})

    def _between_codes(self) -> Limits:
        """Return the share of the variance of a number's ranks between codes, corrected for their number (ε²)."""
        if (column := self.schema.parameters) is None or column.buckets:
            return {}
        (name,) = self.numbers
        numbers = self.values(name).select(rank=pl.col("value").rank(), code=f"event: {column.name}")
        n, k = len(numbers), numbers["code"].n_unique()
        if n == k or not numbers["rank"].var():
            return {}
        within = numbers.select((pl.col("rank") - pl.col("rank").mean().over("code")).pow(2).sum()).item() / (n - k)
        return {f"{name}, by {column.name}": [1 - within / numbers["rank"].var()]}

    def _limits(self) -> Limits:
        """Return the limits of the numbers of these histories."""
        limits: dict[str, Sequence[float]] = {}
        for name in self.numbers:
            numbers = self.measured(name)
            quartiles = [pl.col("value").quantile(q, "linear").alias(f"{q}") for q in (0.25, 0.75)]
            deciles = [pl.col("mean").quantile(q, "linear").alias(f"{q}") for q in (0.1, 0.9)]
            means = numbers.group_by("row", "code").agg(mean=pl.col("value").mean())
            means = means.group_by("code").agg(*deciles, k=pl.len()).filter(pl.col("k") >= FEWEST_HISTORIES).drop("k")
            table = numbers.group_by("code").agg(quartiles).join(means, on="code").sort("code")
            limits |= {self._limit_of(name, code): numbers for code, *numbers in table.iter_rows()}
        return limits


def _events(data: Dataset, words: Mapping[str, str] | None) -> pl.DataFrame:
    """Return one row per event, in order."""
    x, schema = data.sequences.to("cpu"), data.schema
    numbers = {"row": x.rows(), "place": x.steps(), "time": x.values("time")}
    columns: dict[str, Array | pl.Series] = {name: values.numpy() for name, values in numbers.items()}
    for codes in schema.categorical:
        if not codes.buckets:
            numbered = [f"number {place:,}" for place, _ in enumerate(codes.values, 1)]
            texts = numbered if words is None else [words.get(value, value) for value in codes.values]
            texts = [*WITHOUT_WORDS, *texts]
            known = pl.Series(texts, dtype=pl.Enum(list(dict.fromkeys(texts))))  # words may join codes
            columns[f"event: {codes.name}"] = known.gather(x.values(codes.name).long().numpy())
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
