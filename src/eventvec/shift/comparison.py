"""`drift`: whether two periods differ in any column or in their embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eventvec.answers import Answer
from eventvec.dataset import Dataset, repeated
from eventvec.embedding import embed
from eventvec.errors import ConfigError, DataError
from eventvec.models import Model
from eventvec.options import accepts, gather, those_of
from eventvec.sequences import Array, Sequences, stack
from eventvec.shift.differences import figures, verdict
from eventvec.shift.drift_options import DriftOptions
from eventvec.shift.period_tables import Period, coded, held_out, loaded, span_notes, training_notes
from eventvec.shift.periods import Sample, sampled
from eventvec.shift.permutations import PermutationTest, compare_shares, compare_vectors, linear_scores
from eventvec.shift.profiles import BINS, Profile, profiles
from eventvec.statistics.corrections import holm
from eventvec.tables import Embeddings
from eventvec.tables.read_options import Columns, TableFormat
from eventvec.views.cuts import restart_gap

EVENTS = 1 << 23
"""Approximate upper bound on the number of events that are compared."""
FEW = 10
"""The number of entities of a period below which no linear model is trained."""
PERIODS = ("old", "new")
SIDES = ("both", "old_only", "new_only")
"""The names of the numbers of entities in both periods, in the old one only, and in the new one only."""
ABSENT = {"where": "", "old": None, "new": None, "missing": None, "unknown": None, "auroc": None, "bins": ()}
"""The cells that a row has if nothing else is known."""
Progress = Callable[[int, int, str], None]
Tests = list[tuple[str, Profile | Tensor]]
"""A column as a profile, or the vectors of both periods, by the name of the row in the answer."""


@accepts(DriftOptions, Columns, TableFormat)
def drift(
    old: Period, new: Period, *, model: Model | None = None, progress: Progress | None = None, **options: Any
) -> Answer:
    """Return whether two periods differ, column by column, with a bounded probability of a false alarm.

    Two tables of events are compared in the number of events per entity, the gaps between events, the hour of the day,
    and each column with its missing and unknown values; with a model, also in the embeddings of their entities. Two
    sets of embeddings are compared in the vectors and the numbers of events.

    Every entity counts once in a period, by the shares of its events, however many it has. P-values are from
    permutations: the periods of an entity that is in both are exchanged, and those of the other entities are permuted
    among them. Holm's correction for all columns and embeddings bounds the probability that anything is found between
    equal periods by `level`. Periods are equal if an entity's events have the same distribution in both.

    Without a model, the vocabulary and the bins are fitted to both periods together, because a vocabulary that is
    fitted to one of them makes the other have more unknown values. With a model, its schema codes both. If one of the
    periods is what the model was trained on, compare entities that it held out, with `held_out=True`.

    Args:
        old: A table of events, as `read` takes it, or a data set, or embeddings, or their file.
        new: The later period, of the same kind. Data sets must be coded by one schema.
        model: The model whose schema reads the tables, and which embeds the entities that are compared.
        progress: Called with the number of tests done, the number of all tests and the next one's name.
        options: The fields of `DriftOptions` (level, entities, permutations, held_out, seed), and for tables those of
            `tables.read_options.TableFormat` and, without a model, of `Columns`.

    Returns:
        An answer, whose fact `drift` says whether anything differs. It has a row for each column and each part of the
        embeddings:

        - `name`: the column, or `events per entity`, `gap`, `hour of the day`, `embedding`, `embedding: learned`, …
        - `kind`: `count`, `interval`, `numeric`, `categorical`, `list`, `text` or `embedding`
        - `distance`: how far apart the periods are, from 0 to 1: the Kolmogorov-Smirnov distance of numbers, the total
          variation of categories, and the energy coefficient of embeddings
        - `noise`: the distance that 95 % of equal periods stay below, so nothing smaller could have been found
        - `p`, `adjusted`: the p-value of the permutation test, and after Holm's correction
        - `shifted`: whether the periods differ at the level of the test
        - `where`, `old`, `new`: the bin whose share differs most in standard errors, such as `≤ 12.5` or `missing`, and
          its share in each period, the mean over entities
        - `missing`, `unknown`: the shares of missing values, and of those outside the vocabulary, in both periods
        - `auroc`: how well a linear model tells the periods of unseen entities apart by their vectors, .5 is guessing;
          None for columns, and for fewer than 10 entities in a period
        - `bins`: the share of each bin in both periods; for embeddings, of the scores of the linear model

    Raises:
        ConfigError: If an option is out of range or does not apply, or the periods are of different kinds.
        DataError: If a table cannot be used, the periods were coded by different schemas or embedded by different
            models, or a period has fewer than two entities to compare.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> old = pl.DataFrame({"card": [*range(60)] * 2, "day": [1] * 60 + [2] * 60, "shop": ["a", "b"] * 60})
        >>> new = old.with_columns(day=pl.col("day") + 7)
        >>> drift(old, new, key="card", time="day", categorical=["shop"])
        No difference between the periods was found in 3 inputs, at a false-alarm rate of 5 % for all together.
    """
    chosen = gather(options, DriftOptions, Columns, TableFormat)
    reading = those_of(options, Columns, TableFormat)
    rng = torch.Generator().manual_seed(chosen.seed)
    old, new, notes = loaded(old), loaded(new), list[str]()
    before: Dataset | Embeddings
    after: Dataset | Embeddings
    if isinstance(old, Embeddings) or isinstance(new, Embeddings):
        before, after = _comparable(old, new, model, reading)
        if chosen.held_out:
            before, after = before[before.held_out], after[after.held_out]
    else:
        before, after = coded(old, new, model, reading)
        notes += [*dict.fromkeys(before.notes + after.notes), *training_notes(before, after, model)]
        if chosen.held_out:
            before, after = held_out(before, after, model)
    sample = _sample(before, after, chosen.entities, rng)
    both = round(sample.shares[0] * len(before))
    sizes = (both, len(before) - both, len(after) - both)
    first, second = before[sample.old.numpy()], after[sample.new.numpy()]
    if isinstance(first, Embeddings) and isinstance(second, Embeddings):
        lengths = torch.from_numpy(np.concatenate([first.events, second.events]))
        per_entity = next(profiles(Sequences({}, torch.zeros_like(lengths), lengths), first.schema))
        tests: Tests = [(per_entity.name, per_entity), *_parts(first, second)]
        events = (int(first.events.sum()), int(second.events.sum()))
    else:
        assert isinstance(first, Dataset)
        assert isinstance(second, Dataset)
        first, second = (replace(data, sequences=restart_gap(data.sequences.to("cpu"))) for data in (first, second))
        notes += span_notes(first.sequences, second.sequences, first.schema)
        x = stack(*(replace(data.sequences, static={}) for data in (first, second)))
        tests = [(each.name, each) for each in profiles(x, first.schema)]
        if model is not None:
            tests += _parts(*(embed(model.representation, data) for data in (first, second)))
        events = (first.sequences.total, second.sequences.total)
    shifts, more = _tested(tests, sample, chosen, rng, progress)
    counted = "{:,} entities in both periods, {:,} in the old one only, {:,} in the new one only".format(*sizes)
    if sample.sizes != sizes:
        counted += "; compared: {:,}, {:,} and {:,}".format(*sample.sizes)
        more.append(f"a random sample of the entities was compared (seed {chosen.seed})")
    facts = {
        "drift": any(shift["shifted"] for shift in shifts), "level": chosen.level, "correction": "holm",
        "permutations": chosen.permutations, "seed": chosen.seed, "entities": dict(zip(SIDES, sizes, strict=True)),
        "sampled": dict(zip(SIDES, sample.sizes, strict=True)), "events": dict(zip(PERIODS, events, strict=True)),
    }  # fmt: skip
    lines, drawn = verdict(shifts, chosen.level), figures(shifts, chosen.level)
    lead = "Two periods are compared column by column, in the shares of the events of each entity."
    return Answer(
        lines, {"shifts": shifts}, (counted, *notes, *more), drawn, facts,
        title="Do the two periods differ?", lead=lead,
    )  # fmt: skip


def _comparable(old: Any, new: Any, model: Model | None, reading: Mapping[str, Any]) -> tuple[Embeddings, Embeddings]:
    """Return two sets of embeddings; refuse those that cannot be compared, and options of tables."""
    if not (isinstance(old, Embeddings) and isinstance(new, Embeddings)):
        raise ConfigError("one period is embeddings and the other events; give two files of embeddings, or two tables")
    if model is not None or reading:
        name = "model" if model is not None else next(iter(reading))
        raise ConfigError(f"{name} applies to tables of events, but the periods are embeddings; leave it out")
    if old.shape[1] != new.shape[1] or old.metadata.get("run") != new.metadata.get("run"):
        raise DataError(
            "the embeddings are of different models, whose vectors cannot be compared; embed both by one model"
        )
    if repeated(old.keys) or repeated(new.keys):
        raise ConfigError("an entity has several vectors, at several times; write one file for each period")
    return old, new


def _sample(old: Dataset | Embeddings, new: Dataset | Embeddings, entities: int, rng: torch.Generator) -> Sample:
    """Return a sample of the entities, with fewer of them if they have too many events."""
    for name, period in (("old", old), ("new", new)):
        if len(period) < 2:
            raise DataError(f"the {name} period has {len(period)} entities to compare; at least 2 are needed")
    if isinstance(old, Dataset) and isinstance(new, Dataset):
        mean = sum(data.sequences.total / len(data) for data in (old, new))
        entities = min(entities, max(2, int(EVENTS / max(mean, 1))))
    return sampled(old.keys, new.keys, entities, rng)


def _parts(old: Embeddings, new: Embeddings) -> Tests:
    """Return the rows of both embeddings, by the name of each part."""
    vectors = torch.from_numpy(np.concatenate([old.values, new.values]))
    if not old.parts:
        return [("embedding", vectors)]
    return [(f"embedding: {name}", vectors[:, start:end]) for name, (start, end) in old.parts.items()]


def _tested(
    tests: Tests, sample: Sample, chosen: DriftOptions, rng: torch.Generator, progress: Progress | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the results of all tests, by the same permutations, with corrected p-values, and notes."""
    if len(tests) > chosen.level * (chosen.permutations + 1):
        least = math.ceil(len(tests) / chosen.level) - 1
        raise ConfigError(
            f"permutations must be at least {least:,} for {len(tests)} tests at level {chosen.level:g}, got "
            f"{chosen.permutations:,}: fewer could find nothing"
        )
    notes = []
    if sample.arrangements < math.log2(len(tests) / chosen.level):
        counts = "{}, {} and {} entities in both periods and in one of them".format(*sample.sizes)
        notes.append(f"{counts} are too few to find any difference at this level")
    weights = sample.weights(chosen.permutations, rng)
    results: list[tuple[PermutationTest, dict[str, Any]]] = []
    for done, (name, test) in enumerate(tests):
        if progress:
            progress(done, len(tests), name)
        if isinstance(test, Profile):
            result, old, new, most = compare_shares(test, weights)
            results.append((result, _described(test, old, new, most)))
        else:
            results.append((compare_vectors(test, weights), _scored(test, sample)))
    adjusted = holm([result.p for result, _ in results])
    rows = [
        {"name": name, "kind": test.kind if isinstance(test, Profile) else "embedding", "distance": r.distance}
        | {"noise": r.noise, "p": r.p, "adjusted": p, "shifted": p <= chosen.level, **ABSENT, **described}
        for (name, test), (r, described), p in zip(tests, results, adjusted, strict=True)
    ]
    return rows, notes


def _described(profile: Profile, old: Tensor, new: Tensor, most: int | None) -> dict[str, Any]:
    """Return the cells of a row about a column: the largest change, and the shares of bins."""
    shares = dict(zip(profile.labels, zip(old.tolist(), new.tolist(), strict=True), strict=True))
    cells: dict[str, Any] = {name: shares.get(name) for name in ("missing", "unknown")}
    if most is not None:
        where = profile.labels[most]
        cells |= {"where": where, **dict(zip(PERIODS, shares[where], strict=True))}
    return {**cells, "bins": _bins(profile, old.numpy(), new.numpy())}


def _bins(profile: Profile, old: Array, new: Array) -> list[dict[str, Any]]:
    """Return up to 32 bins with their shares, those of numbers no longer cumulated."""
    labels = list(profile.labels)
    if profile.ordered:
        missing = labels[-1:] == ["missing"]
        edges = len(labels) - missing
        old, new = (
            np.concatenate([np.diff(each[:edges], prepend=0, append=1), each[edges:]]) for each in (old, new)
        )  # fmt: skip
        labels = [*labels[:edges], f"> {labels[edges - 1][2:]}" if edges else "all", *labels[edges:]]
    if len(labels) > BINS + 2:
        largest = sorted(np.argsort(-np.maximum(old, new), kind="stable")[:BINS])
        labels, old, new = [labels[i] for i in largest], old[largest], new[largest]
    return _rows_of(labels, old, new)


def _rows_of(labels: Sequence[str], old: Array, new: Array) -> list[dict[str, Any]]:
    return [{"bin": label, "old": float(a), "new": float(b)} for label, a, b in zip(labels, old, new, strict=True)]


def _scored(vectors: Tensor, sample: Sample) -> dict[str, Any]:
    """Return the cells of a row about vectors: how well a linear model tells the periods apart."""
    n_old = len(sample.old)
    if min(n_old, len(sample.new)) < FEW:
        return {}
    scores, auroc = linear_scores(vectors, torch.arange(len(vectors)) >= n_old, sample.entity)
    edges = np.unique(np.quantile(scores, np.arange(1, BINS) / BINS))
    places = np.searchsorted(edges, scores, side="left")
    old, new = (np.bincount(part, minlength=len(edges) + 1) / len(part) for part in (places[:n_old], places[n_old:]))
    labels = [*(f"≤ {edge:.3g}" for edge in edges), "above"]
    return {"auroc": auroc, "bins": _rows_of(labels, old, new)}
