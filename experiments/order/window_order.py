"""Whether order can be predicted: can a linear model tell which of two adjacent windows of a sequence came first?

Order-contrastive methods (Agrawal et al. 2022) learn from histories that do not go back. Where a linear model can order
two windows by their averages, such methods have something to learn. Where it needs a clock for that, a column that
reveals the order by itself, they learn only the clock (see `eventvec.methods.revealed_order`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from eventvec.dataset import Dataset, strings
from eventvec.errors import DataError
from eventvec.methods.revealed_order import clock, ranks
from eventvec.schema import FIRST, Categorical, Numeric
from eventvec.sequences import Sequences
from eventvec.views import distinct_times, during, restart_gap
from eventvec.views.draws import at_least
from eventvec.views.sizes import window_length
from experiments.bootstrap import Estimate, estimate

VALUES = 50
"""Number of most frequent values of a categorical column whose shares are features; fewer if there are many columns."""

FEATURES = 1500
"""Approximate upper bound on the number of features of all categorical columns."""

WORDS = 256
"""Number of features into which the words of a text column are hashed."""

READ_OFF = 0.98
"""A field counts as a clock if it alone orders windows with an AUROC above this."""


@dataclass(frozen=True)
class Irreversibility:
    """How well a linear model orders adjacent windows; returned by `irreversibility`.

    Args:
        auroc: Probability that a pair in order gets a higher score than a pair out of order; 0.5 is guessing.
        clocks: The fields that reveal the order by themselves.
    """

    auroc: Estimate
    clocks: tuple[str, ...]

    @property
    def met(self) -> bool:
        """Whether the interval of the AUROC lies above `MET` and no field is a clock."""
        return self.auroc.clear and not self.clocks


def irreversibility(
    data: Dataset, rng: torch.Generator, *, window: int | None = None, pairs: int = 8, folds: int = 5
) -> Irreversibility:
    """Return how well a linear model orders adjacent windows, and which fields alone reveal the order.

    A window is `window` consecutive distinct times with all their events, because the order of events at the same time
    is the table's and not the entity's. The features of a window are the means of scaled numeric columns and their
    shares of missing values, the shares of the most frequent codes, hashed words of text columns (weighted by inverse
    document frequency), and the mean interval between events.

    The model is a least-squares fit of the difference later − earlier to 1, which is the linear discriminant of pairs
    in order against the same pairs swapped. It has no intercept, so it cannot prefer a position. It is tested on
    entities that it was not trained on, and the AUROC counts each pair in both orders.

    The interval comes from a bootstrap over entities that does not train the model again, so it is too narrow: on 40
    tables without any order it contained 0.5 in 80 % of the cases. Its lower end was at most .508 there, well below the
    threshold of .55.

    Relations: `repeatability` checks the opposite, whether a history stays the same. Both can hold.

    Args:
        data: The rows to check.
        rng: Generator for pairs, folds and intervals.
        window: Number of distinct times in a window. By default, `views.sizes.window_length` sets it: a tenth of the
            median history.
        pairs: Largest number of pairs per entity, drawn without replacement.
        folds: Number of folds of entities.

    Raises:
        ConfigError: If `window` is below 1.
        DataError: If fewer than two entities per fold have two windows, or windows do not differ.

    Example:
        >>> from eventvec import datasets
        >>> order = irreversibility(datasets.flights()[0][:300], torch.Generator().manual_seed(0))
        >>> order.met, order.clocks
        (False, ())
    """
    x = data.sequences.to("cpu")
    times = distinct_times(x)
    window = window_length(x) if window is None else window
    at_least("window", window, 1)
    entities = int((times.lengths >= 2 * window).sum())
    if entities < 2 * folds:
        size, hint = (f"{window} distinct times", "shorter windows or ") if window > 1 else ("one distinct time", "")
        raise DataError(
            f"to tell whether order can be predicted, {2 * folds} entities need two windows of {size}, but only "
            f"{entities:,} of {len(x):,} have them; use {hint}more data"
        )
    views, source = _adjacent(x, times, window, pairs, rng)
    features = {name: values for name, values in _features(data, views) if values.any()}
    if not features:
        raise DataError("adjacent windows do not differ: either all events are alike, or no column was read")
    entity = source.unique(return_inverse=True)[1]  # the entities with a pair, numbered from 0
    model = _Model(torch.cat(list(features.values()), 1), entity, folds, rng)
    ends = torch.tensor([values.shape[1] for values in features.values()]).cumsum(0).tolist()
    places = {n: torch.arange(end - features[n].shape[1], end) for n, end in zip(features, ends, strict=True)}
    alone = {name: estimate(_auroc(model.scores(place)), entity, rng).low for name, place in places.items()}
    reasons = dict(_clocks(data, x))
    overall = estimate(_auroc(model.scores(torch.arange(ends[-1]))), entity, rng)
    return Irreversibility(overall, tuple(n for n in places if reasons.get(n) or alone[n] > READ_OFF))


class _Model:
    """Least squares of 1 on differences, fold by fold.

    The matrix products are computed once and serve a model of any subset of the features.
    """

    def __init__(self, difference: Tensor, entity: Tensor, folds: int, rng: torch.Generator) -> None:
        scale = difference.square().mean(0).sqrt()
        self.x = (difference / scale.clamp(min=1e-12)).clamp(-5, 5).double()
        self.fold = (torch.randperm(int(entity.max()) + 1, generator=rng) % folds)[entity]
        parts = [self.x[self.fold == k] for k in range(folds)]
        self.products = torch.stack([part.T @ part for part in parts])  # (folds, features, features)
        self.sums = torch.stack([part.sum(0) for part in parts])  # (folds, features)

    def scores(self, features: Tensor) -> Tensor:
        """Return `(n,)` scores, higher for pairs in order, from models of these features without the pair's fold."""
        products, sums = self.products[:, features][:, :, features], self.sums[:, features]
        ridge = len(features) * torch.eye(len(features), dtype=torch.float64)
        weights = torch.linalg.solve(products.sum(0) - products + ridge, sums.sum(0) - sums)  # (folds, features)
        scores: Tensor = (self.x[:, features] * weights[self.fold]).sum(1)
        return scores


def _auroc(score: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a function from weights `(draws, n)` to AUROCs `(draws,)` of pairs in order against swapped ones."""
    values, place = torch.cat([score, -score]).unique(return_inverse=True)
    n = len(score)

    def weighted(weight: Tensor) -> Tensor:
        weight = weight.double()
        zeros = weight.new_zeros(len(weight), len(values))
        in_order, swapped = zeros.index_add(1, place[:n], weight), zeros.index_add(1, place[n:], weight)
        below = swapped.cumsum(1) - swapped / 2
        return (in_order * below).sum(1) / weight.sum(1).square()

    return weighted


def _adjacent(
    x: Sequences, times: Sequences, window: int, pairs: int, rng: torch.Generator
) -> tuple[Sequences, Tensor]:
    """Return `2n` windows, first the earlier and then the later ones, and `(n,)` the row of each pair."""
    count = (times.lengths // window - 1).clamp(min=0)  # number of adjacent pairs in each row
    phase = (torch.rand(len(x), generator=rng) * (times.lengths % window + 1)).long()
    grid = Sequences({}, count.cumsum(0) - count, count)
    order = torch.rand(grid.total, generator=rng).argsort()
    order = order[grid.rows()[order].argsort(stable=True)]  # shuffled within each row
    drawn = order[grid.steps() < pairs].sort()[0]
    row = grid.rows()[drawn]
    first = phase[row] + window * grid.steps()[drawn]
    return during(x, times, row.repeat(2), torch.cat([first, first + window]), window), row


def _features(data: Dataset, views: Sequences) -> Iterator[tuple[str, Tensor]]:
    """Yield the name of each field and the differences later − earlier of its features, `(n, features)`."""
    views, schema = restart_gap(views), data.schema
    row, width = views.rows(), views.lengths.clamp(min=1).unsqueeze(1)
    frequent = min(VALUES, FEATURES // max(len(schema.categorical), 1)) + FIRST
    fields: tuple[Numeric | Categorical, ...] = (*schema.numeric, *schema.categorical, schema.gap)
    for field in fields:
        if field.name not in views.columns:
            continue
        if isinstance(field, Numeric):
            value = field.scale(views.values(field.name)).double()
            missing = value.isnan()
            sums = torch.bincount(row, value.nan_to_num(0), minlength=len(views))
            absent = torch.bincount(row, missing.double(), minlength=len(views)).unsqueeze(1)
            mean = sums.unsqueeze(1) / (width - absent)  # NaN where all values are missing
            yield field.name, torch.cat([_change(mean).nan_to_num(0), _change(absent / width)], 1)
        else:
            size = min(field.size, frequent)
            code = views.values(field.name).long().clamp(max=size)  # rare codes share the last bin, which is dropped
            counts = torch.bincount(row * (size + 1) + code, minlength=len(views) * (size + 1)).view(len(views), -1)
            yield field.name, _change(counts[:, :size] / width)
    for name, column in views.columns.items():
        if isinstance(column, Sequences) and "bytes" in column.columns:
            words = _words(strings(column[views.flat()]))
            yield name, _change(words.new_zeros(len(views), WORDS).index_add(0, row, words) / width)


def _words(texts: list[str]) -> Tensor:
    """Return `(n, WORDS)` hashed words and word pairs of texts, weighted by inverse document frequency."""
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    counts = HashingVectorizer(n_features=WORDS, ngram_range=(1, 2), norm=None).transform(texts)
    return torch.from_numpy(TfidfTransformer().fit_transform(abs(counts)).toarray())


def _clocks(data: Dataset, x: Sequences) -> Iterator[tuple[str, str]]:
    """Yield the name of each numeric and categorical column, and what `clock` returns for it."""
    for number in data.schema.numeric:
        yield number.name, clock(x, x.values(number.name))
    for category in data.schema.categorical:
        yield category.name, clock(x, ranks(category)[x.values(category.name).long()])


def _change(features: Tensor) -> Tensor:
    earlier, later = features.chunk(2)
    return later - earlier
