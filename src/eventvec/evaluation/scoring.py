"""Scores of sets of features on a label, with the same models, folds and shares of the labels for each set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from eventvec.answers import Answer
from eventvec.errors import ConfigError, nearest, shown
from eventvec.evaluation.choice import best, candidates
from eventvec.evaluation.conclusion import NEED_EVENTS, verdict
from eventvec.evaluation.evaluation_charts import charts
from eventvec.evaluation.evaluation_options import EvaluationOptions
from eventvec.evaluation.fold_scores import STACKED, Cells
from eventvec.evaluation.measure_charts import measure_charts
from eventvec.evaluation.protocols import choose_protocol
from eventvec.evaluation.result import MADE, Evaluation, Result
from eventvec.evaluation.set_measures import set_measures
from eventvec.evaluation.suspicion import strongest, suspicion
from eventvec.learners.folds import group_codes, units
from eventvec.learners.inputs import array, column, matrix, positive
from eventvec.learners.metrics import Task
from eventvec.learners.parallel import Progress
from eventvec.learners.row_groups import groups_of
from eventvec.learners.single_learners import MODELS, why_no_lightgbm
from eventvec.learners.task import target
from eventvec.options import accepts, gather
from eventvec.sequences import Array


@accepts(EvaluationOptions)
def score_features(
    features: Mapping[str, Any],
    labels: Any,
    *,
    groups: Any = None,
    entities: Any = None,
    holdout: Any = None,
    later: Any = None,
    both_sides: bool = False,
    weights: Any = None,
    label: str = "label",
    learned_from: Sequence[str] | None = (),
    names: Mapping[str, Sequence[str]] | None = None,
    subgroups: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Answer:
    """Return how well models predict a label from each set of features, and the paired differences between the sets.

    By default, the models are trained and tested in stratified cross-validation over the labelled entities. The encoder
    has then seen the events of the test entities, and their labels if it was trained on them. With `holdout`, the
    protocol is the paper's "test" (Babaev et al. 2022): the entities that the encoder saw are split into folds, and
    each model is trained without one fold and tested on all held-out entities. There is still one score per fold.
    With `later`, labels before a date train models and labels after it test them, see `folds.date_splits`.

    The highest of several scores is biased upward. The fact `best` is what the best set is worth without this bias: in
    each fold, the score of the set that is best inside the training part, see `choice`. Baselines, parts of the
    embedding and sets that are made of others are not among these sets.

    Relations: `evaluate` takes embeddings and a table of labels, joins them, and adds aggregates.

    Args:
        features: `(n, d)` numbers for each set of features. If `embedding` and `aggregates` are among the names, `both`
            is added: under `stacked` the models of the two predict together, under other models the features are side
            by side; with `handcrafted` or `earlier_labels`, `embedding_handcrafted` or `embedding_earlier_labels`. With
            `embedding_handcrafted` comes its control, see `result.CONTROL`.
        labels: `(n,)` one label per row, or several binary arrays by name, for a mean score.
            Rows whose label is None or NaN are left out and counted.
        groups: `(n,)` the group of each row. Groups are never split between training and test, for example the
            patients of one hospital.
        entities: `(n,)` the entity of each row, if entities have rows at several times. They are never split either.
        holdout: `(n,)` bool, true for entities that the encoder never saw.
        later: `(n,)` bool, true for labels at or after a date, which are tested.
        both_sides: Whether an entity or a group may be trained on before that date and tested after it.
        weights: `(n,)` how much each row counts in training and in scores, above 0 and within a factor of a million of
            each other. They are divided by their mean.
        label: The name of the label in the result and in messages.
        learned_from: The static columns that the encoder was trained on; empty if it learned without labels, None if
            that is not known.
        names: What each feature of a set is, `d` texts. Single features are checked in these sets, and the verdict
            begins with one that predicts the label nearly without error.
        subgroups: A column by its name, such as ``{"region": regions}``, with `(n,)` texts, booleans or whole numbers,
            at most 50 different ones: measures are told for each of its groups too.
        progress: Called with the number of folds that are done, of all folds, and the name of the next one.
        options: The fields of `EvaluationOptions` (task, folds, fractions, seed, models, num_threads).

    Raises:
        DataError: If a feature is NaN or infinite, lengths differ, or a class, a fold or a group has too few members.
        ConfigError: If an option is out of range or unknown.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.random(200) < 0.4
        >>> z = rng.normal(size=(200, 3)) + labels[:, None]
        >>> result = score_features({"embedding": z}, labels, models=["logistic_regression"], label="churn")
        >>> result.facts["task"], result.facts["positive"], round(result.row(features="embedding")["score"].value, 2)
        ('binary', True, 0.85)
    """
    chosen = gather(options, EvaluationOptions)
    if not isinstance(features, Mapping):
        kind = type(features).__name__
        raise ConfigError(f"features must be numbers by name, such as {{'embedding': z}}, got {kind}")
    if taken := [name for name in MADE if name in features]:
        raise ConfigError(
            f"features may not be called {taken[0]!r}, the name of sets that are made of others; rename them"
        )
    n = len(array(next(iter(labels.values())) if isinstance(labels, Mapping) else labels, f"label {shown(label)}"))
    matrices = {name: matrix(values, name, n) for name, values in features.items()}
    for name, texts in (names or {}).items():
        if name not in matrices or len(texts) != matrices[name].shape[1]:
            raise ConfigError(f"names must have a text for each feature of a set, got {len(texts):,} for {shown(name)}")
    labelled = target(labels, chosen.task, label)
    models, model_notes = chosen_models("binary" if labelled.task == "multilabel" else labelled.task, chosen.models)

    def beside(values: Any, name: str) -> Array | None:
        return None if values is None else column(values, name, n)[labelled.rows]

    counts = None if weights is None else positive(column(weights, "weights", n))
    if both_sides and (later is None or holdout is not None):
        raise ConfigError("both_sides needs later, and has no meaning with holdout")
    of_entities, of_groups = (
        None if each is None else group_codes(each) for each in (beside(entities, "entities"), beside(groups, "groups"))
    )
    protocol = choose_protocol(
        labelled,
        units(of_entities, of_groups),
        beside(holdout, "holdout"),
        beside(later, "later"),
        both_sides=both_sides,
        folds=chosen.folds,
        seed=chosen.seed,
        learned_from=learned_from,
    )
    rows = protocol.target.rows
    sets = {name: values[rows] for name, values in matrices.items()}
    counts = None if counts is None else counts[rows] / counts[rows].mean()
    missing = n - len(labelled.y)
    notes = [f"{missing:,} of {n:,} entities have no label and were left out."] if missing else []
    notes += [*protocol.notes, *model_notes]
    named = {name: (sets[name], texts) for name, texts in (names or {}).items()}
    n_entities = len(rows) if entities is None else len(np.unique(np.asarray(entities)[rows]))

    codes, groups_told = None, None
    if subgroups is not None:
        if len(subgroups) != 1:
            raise ConfigError(f"subgroups must be one column by its name, got {len(subgroups):,}")
        ((column_name, of_rows),) = subgroups.items()
        codes, groups_told = groups_of(column(of_rows, "subgroups", n)[rows], column_name)

    def answer(results: tuple[Result, ...], *more: str) -> Answer:
        evaluation = Evaluation(
            label, labelled.task, len(rows), n_entities, chosen.folds, protocol.name, labelled.positive, results,
            strongest(protocol.target, protocol.groups, named), labelled.classes,
        )  # fmt: skip
        lines = verdict(evaluation, suspicion(evaluation), learned_from)
        lines = tuple(line for line in lines if not more or line != NEED_EVENTS)  # they may have been given
        measures = set_measures(evaluation, cells.held_out(codes), 1.0 if cells.same_test else None, groups_told)
        lines += (measures.of_groups,) if measures.of_groups and len(lines) + len(more) < 5 else ()
        tables = {**evaluation.tables, **measures.tables}
        facts = evaluation.facts | {"best": best(candidates(evaluation.deciding))}
        return Answer(
            (*lines, *more), tables, (*notes, *measures.notes),
            (*charts(tables["results"], facts), *measure_charts(measures.tables, label)), facts,
            title=f"What predicts {label}?", basis=evaluation,
        )  # fmt: skip

    cells = Cells(sets, protocol, counts, chosen.fractions, chosen.seed, models)
    try:
        cells.train(chosen.num_threads or torch.get_num_threads(), progress)
    except KeyboardInterrupt as stop:
        if not (results := cells.results()):
            raise
        unfinished = ", ".join(name for name in cells.names if name not in {each.features for each in results})
        raise Unfinished(answer(results, f"Interrupted before these were scored: {unfinished}.")) from stop
    return answer(cells.results())


class Unfinished(KeyboardInterrupt):
    """An evaluation was interrupted; `answer` has the sets of features that were finished."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


def chosen_models(task: Task, names: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Return the names of the models to train, and notes if boosted trees are left out."""
    fitting = [STACKED, *(name for name, (_, tasks) in MODELS.items() if task in tasks)]
    for name in names or ():
        if name not in fitting:
            raise ConfigError(f"there is no model {name!r} for a {task} label; {nearest(name, fitting)}")
    chosen = list(names or [STACKED])
    if not (reason := why_no_lightgbm() if {STACKED, "lightgbm"} & set(chosen) else None):
        return chosen, []
    notes = [f"The model {STACKED} is without boosted trees: {reason}"] if STACKED in chosen else []
    if "lightgbm" in chosen:
        chosen.remove("lightgbm")
        notes.append(f"The lightgbm rows are left out: {reason}")
    if not chosen:
        raise ConfigError(reason)
    return chosen, notes
