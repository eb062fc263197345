"""What features are worth: the same models, folds and label shares for each set of features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from eventvec.errors import ConfigError
from eventvec.evaluation.folds import Split, apart, cross_validation, group_codes, holdout_splits, subsample
from eventvec.evaluation.inputs import column, in_range, matrix
from eventvec.evaluation.metrics import Array, measure
from eventvec.evaluation.models import Job, Model, choose
from eventvec.evaluation.result import Difference, Evaluation, Result, Scores
from eventvec.evaluation.task import Target, target

PAIRS = (("embedding", "aggregates"), ("both", "aggregates"), ("both", "embedding"))
"""The differences that are taken, first minus second."""


def evaluate(
    features: Mapping[str, Any],
    labels: Any,
    *,
    task: str | None = None,
    folds: int = 5,
    groups: Any = None,
    fractions: Sequence[float] = (1.0,),
    holdout: Any = None,
    seed: int = 42,
    models: Sequence[str] | None = None,
    label: str = "label",
    taught: Sequence[str] | None = (),
    num_threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Return what each set of features knows about a label, and the paired differences between them.

    By default the models are trained and tested in stratified cross-validation over the labelled entities. The encoder
    has then seen the test entities' events, and their labels too if it was `taught` them. With `holdout` the protocol
    is the paper's "test" (Babaev et al. 2022): the entities that were seen are split into folds, each model is trained
    without one of them and tested on all held-out entities, so that there is still one score per fold.

    Args:
        features: `(n, d)` numbers per name; if there are an `embedding` and `aggregates`, `both` is added: the two side
            by side.
        labels: `(n,)` one label per row; None and NaN are left out and counted.
        task: `binary`, `multiclass` or `numeric`; by the rule of `target` if not given.
        folds: how many, 2 or more.
        groups: `(n,)` entities of one group stay together, for example patients of a hospital.
        fractions: shares in (0, 1] of each fold's training labels, drawn once for all models and features; a larger
            share contains a smaller one, the test part stays whole.
        holdout: `(n,)` bool, true for entities that the encoder never saw.
        seed: of folds, draws and boosting.
        models: names in `MODELS`; all that fit the task if not given.
        label: how the result and messages call the label.
        taught: static columns that the encoder was ever trained on, none for one that learned without labels; None if
            that is not known. `Run.info["labels"]` has them, and so has the metadata of an embeddings file.
        num_threads: for boosting; all cores if not given.
        progress: called with the number of models done and the number in all.

    Raises:
        DataError: features hold NaN or infinite numbers, lengths differ, a class has too few members, and the like.
        ConfigError: an option is out of range or unknown.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.random(200) < 0.4
        >>> z = rng.normal(size=(200, 3)) + labels[:, None]
        >>> found = evaluate({"embedding": z}, labels, models=["logistic_regression"], label="churn")
        >>> found.task, found.positive, found.metric, round(found.get("embedding", "logistic_regression").main.mean, 2)
        ('binary', True, 'auroc', 0.85)
    """
    in_range(fractions)
    if "both" in features:
        raise ConfigError("features may not be called 'both'; that is the embedding and the aggregates side by side")
    given = len(np.asarray(labels))
    sets = {name: matrix(values, name, given) for name, values in features.items()}
    wanted = target(labels, task, label)
    notes = _missing(given, wanted)
    chosen, absent = choose(wanted.task, models)
    held = None if holdout is None else column(holdout, "holdout", given)[wanted.rows]
    codes = None if groups is None else group_codes(column(groups, "groups", given)[wanted.rows])
    if held is not None and codes is not None:
        wanted, held, codes, left_out = _set_apart(wanted, held, codes)
        notes += left_out
    sets = _with_both({name: values[wanted.rows] for name, values in sets.items()})
    if held is None:
        splits = cross_validation(wanted, folds, codes, seed)
    else:
        splits = holdout_splits(wanted, held, folds, codes, seed)
    results = _score(sets, wanted, splits, fractions, chosen, seed, num_threads, progress)
    protocol = "cross-validation" if held is None else "holdout"
    notes += [_seen(held, taught), *absent]
    n, differences = len(wanted.y), _differences(results)
    return Evaluation(label, wanted.task, n, folds, protocol, wanted.positive, results, differences, tuple(notes))


def _score(
    sets: Mapping[str, Array],
    wanted: Target,
    splits: Sequence[Split],
    fractions: Sequence[float],
    models: Mapping[str, Model],
    seed: int,
    num_threads: int | None,
    progress: Callable[[int, int], None] | None,
) -> tuple[Result, ...]:
    parts = {f: [subsample(wanted, train, f, seed + k) for k, (train, _) in enumerate(splits)] for f in fractions}
    cells = list(product(parts, models, sets))
    results = []
    for done, (fraction, model, name) in enumerate(cells):
        x, scores = sets[name], []
        for fold, (train, (_, test)) in enumerate(zip(parts[fraction], splits, strict=True)):
            if progress:
                progress(done * len(splits) + fold, len(cells) * len(splits))
            job = Job(wanted.task, len(wanted.classes), x[train], wanted.y[train], x[test], seed, num_threads)
            scores.append(measure(wanted.task, wanted.y[test], models[model](job)))
        main, secondary = (Scores(tuple(values)) for values in zip(*scores, strict=True))
        results.append(Result(name, model, fraction, main, secondary))
    if progress:
        progress(len(cells) * len(splits), len(cells) * len(splits))
    return tuple(results)


def _differences(results: Sequence[Result]) -> tuple[Difference, ...]:
    main = {(r.fraction, r.model, r.features): r.main for r in results}
    cells = dict.fromkeys((r.fraction, r.model) for r in results)
    return tuple(
        Difference(a, b, model, fraction, main[fraction, model, a] - main[fraction, model, b])
        for (fraction, model), (a, b) in product(cells, PAIRS)
        if (fraction, model, a) in main and (fraction, model, b) in main
    )


def _with_both(sets: dict[str, Array]) -> dict[str, Array]:
    if "embedding" in sets and "aggregates" in sets:
        sets["both"] = np.concatenate([sets["embedding"], sets["aggregates"]], axis=1)
    return sets


def _set_apart(wanted: Target, held: Array, codes: Array) -> tuple[Target, Array, Array, list[str]]:
    kept = apart(held, codes)
    if kept.all():
        return wanted, held, codes, []
    target = Target(wanted.name, wanted.task, wanted.y[kept], wanted.rows[kept], wanted.classes)
    note = f"{int((~kept).sum()):,} seen entities share a group with held-out ones and were not used for training."
    return target, held[kept], codes[kept], [note]


def _seen(held: Array | None, taught: Sequence[str] | None) -> str:
    if held is None and taught:
        columns = f"column{'' if len(taught) == 1 else 's'} {', '.join(map(repr, taught))}"
        return (
            f"The encoder saw the test entities' events and was trained on the static {columns} too: only a holdout "
            "tells what it is worth on entities that it never saw."
        )
    if held is None:
        known = "without labels" if taught is not None else "and whether it was trained on labels is not known"
        return f"The encoder saw the test entities' events, {known}; a holdout measures entities that it never saw."
    return (
        f"Tested on {int(held.sum()):,} entities that the encoder never saw; each score is over all of them, from a "
        f"model trained without one fold of the {int((~held).sum()):,} others."
    )


def _missing(given: int, wanted: Target) -> list[str]:
    missing = given - len(wanted.y)
    return [f"{missing:,} of {given:,} entities have no label and were left out."] if missing else []
