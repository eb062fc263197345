"""Is order readable: can a linear model tell which of two adjacent windows of a history came first?

Order-contrastive methods (Agrawal et al. 2022) learn from histories that do not go back. Where even the difference of
two windows' averages tells their order, they have something to learn; where only a clock does, they learn the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eventvec.config import suggest
from eventvec.dataset import Dataset
from eventvec.diagnosis.clocks import clock, ranks
from eventvec.diagnosis.estimate import MET, Estimate, estimate
from eventvec.errors import DataError
from eventvec.schema import FIRST, Categorical, Numeric
from eventvec.sequences import Sequences
from eventvec.texts import strings
from eventvec.views import at_least, during, moments, restart_gap

VALUES = 50
"""Values of a categorical column whose shares are features, the most frequent ones; fewer if there are many columns."""

FEATURES = 1500
"""Features of all categorical columns, about, at most."""

WORDS = 256
"""Features into which the words of a text column are hashed."""

READ_OFF = 0.98
"""A field that alone orders windows as well as this is taken for a clock, whatever it looks like."""


@dataclass(frozen=True)
class Field:
    """How well one field alone orders adjacent windows.

    Args:
        name: of the column.
        auroc: chance that it puts a pair in order before one out of order; 0.5 is guessing.
        clock: why it is a clock, empty if it is none.
    """

    name: str
    auroc: Estimate
    clock: str = ""


@dataclass(frozen=True)
class Irreversibility:
    """How well adjacent windows are ordered; returned by `irreversibility`.

    Args:
        window: consecutive distinct times in a window.
        entities: with two windows or more.
        skipped: entities with fewer.
        pairs: of adjacent windows.
        tied: share of neighbouring events that have the same time.
        auroc: of all fields together.
        without_clocks: the same without the fields that are clocks; None if there are none, or no other field.
        fields: the best first.
    """

    window: int
    entities: int
    skipped: int
    pairs: int
    tied: float
    auroc: Estimate
    without_clocks: Estimate | None
    fields: tuple[Field, ...]

    @property
    def clocks(self) -> tuple[Field, ...]:
        """Fields from which the order can be read off."""
        return tuple(field for field in self.fields if field.clock)

    @property
    def carriers(self) -> tuple[Field, ...]:
        """Fields that alone order windows better than `MET` and are no clocks."""
        return tuple(field for field in self.fields if field.auroc.clear and not field.clock)

    @property
    def met(self) -> bool:
        """Whether the interval lies above `MET` and no field is a clock."""
        return self.auroc.clear and not self.clocks

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        rest = self.without_clocks
        return {
            **{name: getattr(self, name) for name in ("window", "entities", "skipped", "pairs", "tied", "met")},
            "threshold": MET,
            "auroc": self.auroc.to_dict(),
            "without_clocks": rest and rest.to_dict(),
            "fields": [{"name": f.name, "auroc": f.auroc.to_dict(), "clock": f.clock} for f in self.fields],
        }


def irreversibility(
    data: Dataset, rng: torch.Generator, *, window: int | None = None, pairs: int = 8, folds: int = 5
) -> Irreversibility:
    """Return how well a linear model on the difference of adjacent windows orders them, over all fields and by each.

    A window is `window` consecutive distinct times with all their events: the order of events at one time is the
    table's, not the entity's. Its features are means of scaled numbers and the share that is missing, shares of the
    most frequent codes, hashed words of text columns (weighted by how rare they are), and the mean interval between
    its events. The model is least squares on the difference later − earlier against 1, which is the linear
    discriminant of pairs in order against the same pairs swapped; it has no intercept, so it cannot prefer a slot. It
    is tested on entities that it did not see, and the AUROC counts each pair in both orders. The interval draws
    entities again, but trains no model again, which makes it too narrow: on 40 tables without any order it held 0.5 in
    80 %. Its lower end was .508 at most there; the threshold, .55, is beyond that.

    Relations: `repeatability` asks the opposite, whether a history goes on as it was; both can hold.

    Args:
        data: rows.
        rng: of pairs, folds and intervals.
        window: distinct times in a window; by the rule of `config.suggest` (a tenth of the median) if not given.
        pairs: drawn per entity, without replacement, at most.
        folds: of entities.

    Raises:
        ConfigError: the window is below 1.
        DataError: too few entities have two windows, or nothing differs between windows.

    Example:
        >>> from eventvec import datasets
        >>> found = irreversibility(datasets.flights()[0][:300], torch.Generator().manual_seed(0))
        >>> found.met, found.clocks
        (False, ())
    """
    x = data.sequences.to("cpu")
    times = moments(x)
    window = suggest(x, {"method": {"name": "ocp"}})["method"]["length"] if window is None else window
    at_least("window", window, 1)
    enough = times.lengths >= 2 * window
    entities = int(enough.sum())
    if entities < 2 * folds:
        size, shorter = (f"{window} distinct times", ", or shorter windows") if window > 1 else ("one time", "")
        raise DataError(
            f"{entities:,} of {len(x):,} entities have two windows of {size}; whether order can be read needs "
            f"{2 * folds} of them{shorter}"
        )
    views, source = _adjacent(x, times, window, pairs, rng)
    parts = {name: part for name, part in _features(data, views) if part.any()}
    if not parts:
        raise DataError("nothing differs between adjacent windows: all events are alike, or no column was read")
    entity = source.unique(return_inverse=True)[1]  # those with a pair, from 0
    model = _Model(torch.cat(list(parts.values()), 1), entity, folds, rng)
    ends = torch.tensor([part.shape[1] for part in parts.values()]).cumsum(0).tolist()
    places = {n: torch.arange(end - parts[n].shape[1], end) for n, end in zip(parts, ends, strict=True)}
    clocks = dict(_clocks(data, x))
    fields = []
    for name, place in places.items():
        alone = estimate(_auroc(model.scores(place)), entity, rng)
        why = "alone it orders nearly every pair" if alone.low > READ_OFF else ""
        fields.append(Field(name, alone, clocks.get(name) or why))
    fields.sort(key=lambda field: -field.auroc.value)
    every = estimate(_auroc(model.scores(torch.arange(ends[-1]))), entity, rng)
    kept = [places[field.name] for field in fields if not field.clock]
    partly = 0 < len(kept) < len(fields)
    rest = estimate(_auroc(model.scores(torch.cat(kept).sort()[0])), entity, rng) if partly else None
    tied = 1 - (times.total - len(times)) / max(x.total - len(x), 1)
    return Irreversibility(window, entities, len(x) - entities, len(source), tied, every, rest, tuple(fields))


class _Model:
    """Least squares of 1 on differences, held-out fold by fold; any subset of the features from the same products."""

    def __init__(self, difference: Tensor, entity: Tensor, folds: int, rng: torch.Generator) -> None:
        scale = difference.square().mean(0).sqrt()
        self.x = (difference / scale.clamp(min=1e-12)).clamp(-5, 5).double()
        self.fold = (torch.randperm(int(entity.max()) + 1, generator=rng) % folds)[entity]
        parts = [self.x[self.fold == k] for k in range(folds)]
        self.products = torch.stack([part.T @ part for part in parts])  # (folds, features, features)
        self.sums = torch.stack([part.sum(0) for part in parts])

    def scores(self, features: Tensor) -> Tensor:
        """Return `(n,)` how much each pair looks in order, by a model of these features that did not see its entity."""
        products, sums = self.products[:, features][:, :, features], self.sums[:, features]
        ridge = len(features) * torch.eye(len(features), dtype=torch.float64)
        weights = torch.linalg.solve(products.sum(0) - products + ridge, sums.sum(0) - sums)  # (folds, features)
        found: Tensor = (self.x[:, features] * weights[self.fold]).sum(1)
        return found


def _auroc(score: Tensor) -> Any:
    """Return a function from weights `(draws, n)` to the AUROCs `(draws,)` of pairs in order against them swapped."""
    values, place = torch.cat([score, -score]).unique(return_inverse=True)
    n = len(score)

    def weighted(weight: Tensor) -> Tensor:
        weight = weight.double()
        zeros = weight.new_zeros(len(weight), len(values))
        right, wrong = zeros.index_add(1, place[:n], weight), zeros.index_add(1, place[n:], weight)
        below = wrong.cumsum(1) - wrong / 2
        return (right * below).sum(1) / weight.sum(1).square()

    return weighted


def _adjacent(
    x: Sequences, times: Sequences, window: int, pairs: int, rng: torch.Generator
) -> tuple[Sequences, Tensor]:
    """Return `2n` windows, the earlier ones and then the later ones, and `(n,)` the row of each pair."""
    count = (times.lengths // window - 1).clamp(min=0)  # pairs of neighbours in each row
    phase = (torch.rand(len(x), generator=rng) * (times.lengths % window + 1)).long()
    grid = Sequences({}, count.cumsum(0) - count, count)
    order = torch.rand(grid.total, generator=rng).argsort()
    order = order[grid.rows()[order].argsort(stable=True)]  # shuffled inside rows, which stay in place
    drawn = order[grid.steps() < pairs].sort()[0]
    row = grid.rows()[drawn]
    first = phase[row] + window * grid.steps()[drawn]
    return during(x, times, row.repeat(2), torch.cat([first, first + window]), window), row


def _features(data: Dataset, views: Sequences) -> Iterator[tuple[str, Tensor]]:
    """Yield the name of each field and the differences later − earlier of its features, `(n, features)`."""
    views, schema = restart_gap(views), data.schema
    row, width = views.rows(), views.lengths.clamp(min=1).unsqueeze(1)
    kept = min(VALUES, FEATURES // max(len(schema.categorical), 1)) + FIRST
    fields: tuple[Numeric | Categorical, ...] = (*schema.numeric, *schema.categorical, schema.gap)
    for field in fields:
        if field.name not in views.columns:
            continue
        if isinstance(field, Numeric):
            value = field.scale(views.values(field.name)).double()
            missing = value.isnan()
            sums = torch.bincount(row, value.nan_to_num(0), minlength=len(views))
            absent = torch.bincount(row, missing.double(), minlength=len(views)).unsqueeze(1)
            mean = sums.unsqueeze(1) / (width - absent)  # NaN where all are missing
            yield field.name, torch.cat([_later(mean).nan_to_num(0), _later(absent / width)], 1)
        else:
            size = min(field.size, kept)
            code = views.values(field.name).long().clamp(max=size)  # the rare ones together, and dropped
            counts = torch.bincount(row * (size + 1) + code, minlength=len(views) * (size + 1)).view(len(views), -1)
            yield field.name, _later(counts[:, :size] / width)
    for name, column in views.columns.items():
        if isinstance(column, Sequences):
            words = _words(strings(column[views.flat()]))
            yield name, _later(words.new_zeros(len(views), WORDS).index_add(0, row, words) / width)


def _words(texts: list[str]) -> Tensor:
    """Return `(n, WORDS)` the hashed words and pairs of words of texts, weighted by how rare they are."""
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    counts = HashingVectorizer(n_features=WORDS, ngram_range=(1, 2), norm=None).transform(texts)
    return torch.from_numpy(TfidfTransformer().fit_transform(abs(counts)).toarray())


def _clocks(data: Dataset, x: Sequences) -> Iterator[tuple[str, str]]:
    """Yield the name of each column and why it is a clock, empty if it is not; text and the interval are none."""
    for number in data.schema.numeric:
        yield number.name, clock(x, x.values(number.name))
    for category in data.schema.categorical:
        yield category.name, clock(x, ranks(category)[x.values(category.name).long()])


def _later(features: Tensor) -> Tensor:
    earlier, later = features.chunk(2)
    return later - earlier
