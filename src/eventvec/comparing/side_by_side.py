"""`compare`: trains the arms, scores them in the same folds, and resumes what was killed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from eventvec import tables
from eventvec.answers import Answer
from eventvec.comparing.arms import existing, plan
from eventvec.comparing.compare_options import CompareOptions
from eventvec.comparing.compared import answer
from eventvec.comparing.plans import STEPS, Progress, begin, budget, ticker
from eventvec.config import Table
from eventvec.dataset import Dataset, check_entities
from eventvec.embedding import embed
from eventvec.errors import ConfigError, DataError, shown
from eventvec.evaluation import evaluate
from eventvec.evaluation.protocols import choose_protocol
from eventvec.evaluation.result import MADE, Evaluation
from eventvec.evaluation.scoring import chosen_models as choose_models
from eventvec.examples.labelled import join_examples
from eventvec.files import path_only, write_text
from eventvec.models import Model, load
from eventvec.models.model_files import read_info
from eventvec.options import accepts, gather_all
from eventvec.tables.label_times import doubts, labelled_histories, labels_beside
from eventvec.tables.read_options import LabelTime
from eventvec.tables.sources import Tabular, kept
from eventvec.training import fit

Tick = Callable[..., None]
TRAINING = ("methods", "encoders", "time_budget", "epochs")
"""The options that are about training, besides `resume`."""


@accepts(CompareOptions, LabelTime)
def compare(
    data: Dataset | Tabular,
    labels: Tabular,
    label: str,
    *,
    out: Path | str | None = None,
    runs: Sequence[Model | Path | str] | Mapping[str, Model | Path | str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Answer:
    """Return which of several methods and encoders, or of several runs, to use: scores in the same folds, and costs.

    Each arm is trained without labels on the same entities, with the sizes that `fit` derives from the data and without
    parts beside the learned vector. Then all vectors are scored by the same models in the same folds, beside
    hand-crafted features and an encoder without training. One arm wins only if it is ahead of all others after allowing
    for the choice, see `compared.choose`; otherwise the answer says why not, and names the cheapest of those that are
    level.

    With `runs`, nothing is trained: the vectors of runs that exist are compared as they are, with all their parts.

    A budget of time compares what a user gets for the same waiting on this machine; one of epochs compares equal passes
    over the data, repeats exactly, and favours expensive methods. Encoders see the entities of all folds, but no
    labels.

    The folder has the plan and a run for each arm. What was killed goes on with `resume`; arms that are finished are
    not trained again. With a budget of epochs, the result is the same as without the interruption. An arm that cannot
    be trained on the data is reported with the reason, and the others go on.

    Relations: `fit` and `evaluate` do one arm.

    Args:
        data: The entities. For runs, their events as `Model.read` takes them: each run reads a table by its own schema.
        labels: A table with the key and the label, and the time of each label if there is one.
        label: The column to predict.
        out: The folder for the plan and the runs; it is not given for runs that exist.
        runs: Runs, or their folders, to be compared as they are; a mapping gives them names.
        progress: Called with the steps that are done, all steps, and what is being done.
        options: The fields of `CompareOptions` (methods, encoders, time_budget, epochs, folds, models, seed, resume)
            and of `tables.read_options.LabelTime` (label_time, inclusive), as for `evaluate`. Vectors are made from
            events before the time of a label; training reads all events of the data, without labels.

    Returns:
        An answer with a row for each arm and each set of simple features, best first: its `score`, the seconds of its
        `training` and of `embedding` 1,000 entities, the number of `weights`, the numbers in a vector (`dim`), `epochs`
        and a `remark`. Facts are the `winner` (or None), the arms that are `level` with the best, the one that is
        `advised`, those that `failed`, and what the `best` arm is worth on rows that did not choose it. The tables
        `results` and `differences` are those of `evaluate`.

    Raises:
        ConfigError: If a name is not known, both budgets are given, there are fewer than two arms, or an argument of
            training is given beside runs.
        CheckpointError: If the folder has files already, or a plan of other arms, events or budgets, or a run cannot be
            loaded.
        DataError: If no two arms can be trained, or the events or labels cannot be used.

    Example:
        >>> import tempfile
        >>> from eventvec import datasets
        >>> data, labels = datasets.flights()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = compare(data[:100], labels, "built_2002", methods=["coles", "ocp"], epochs=1,
        ...                      models=["logistic_regression"], out=folder)
        >>> sorted(row["arm"] for row in result.rows), result.facts["folds"]
        (['coles', 'handcrafted', 'ocp', 'untrained'], 5)
    """
    chosen, time = gather_all(options, CompareOptions, LabelTime)
    scoring = {"folds": chosen.folds, "models": chosen.models, "seed": chosen.seed, **vars(time)}
    if runs is not None:
        given = {"out": out, **{name: vars(chosen)[name] for name in TRAINING}, "resume": chosen.resume or None}
        if unused := [name for name, value in given.items() if value is not None]:
            raise ConfigError(f"{unused[0]} is about training, and runs are compared as they are; leave it out")
        labels = kept(labels)
        ready = {name: partial(_read, run, data, labels, label, time) for name, run in existing(runs).items()}
        return _compared(ready, labels, label, scoring, None, progress)
    if not isinstance(data, Dataset):
        raise ConfigError(f"data must be a Dataset, got {type(data).__name__}; read it: ev.read(path, key=…, time=…)")
    check_entities(data)
    if out is None:
        raise ConfigError("out, the folder for the plan and the runs, is not given; name one: out= (--out)")
    folder = path_only(out)
    bound, in_words = budget(chosen.time_budget, chosen.epochs)
    arms = plan(chosen.methods, ("gru",) if chosen.encoders is None else chosen.encoders)
    labels = kept(labels)
    timed = labels_beside(data, labels, [label], time)
    labelled = labelled_histories(data, timed)
    learned = join_examples(labelled, timed).target()  # what evaluate would refuse later is refused now
    choose_models(learned.task, chosen.models)
    choose_protocol(learned, None, None, None, both_sides=False, folds=chosen.folds, seed=chosen.seed, learned_from=())
    described = {"fingerprint": data.fingerprint, "arms": arms, "budget": bound, "seed": chosen.seed}
    begin(folder, described, chosen.resume, "comparison")
    planned = {
        name: partial(_trained, folder / f"arm-{place:02}", arm, data, labelled, bound, chosen.seed)
        for place, (name, arm) in enumerate(arms.items())
    }
    result = _compared(planned, labels, label, scoring, in_words, progress)
    write_text(folder / "result.json", json.dumps(result.to_dict(), indent=1))
    return result


def _compared(
    arms: Mapping[str, Callable[[Tick], tuple[Model, Dataset]]],
    labels: Tabular,
    label: str,
    scoring: Mapping[str, Any],
    in_words: str | None,
    progress: Progress | None,
) -> Answer:
    """Return which arm to use; each is a function that returns its run, and the histories to embed.

    With a budget, which is given in words, arms that cannot be trained are left out.
    """
    total, failed = STEPS * (len(arms) + 1), dict[str, str]()
    vectors, costs, histories = dict[str, tables.Embeddings](), dict[str, dict[str, Any]](), list[Dataset]()
    for place, (name, arm) in enumerate(arms.items()):
        tick = ticker(progress, place * STEPS, total, name)
        try:
            run, labelled = arm(tick)
            vectors[name], costs[name] = _embedded(run, labelled)
            histories.append(labelled)
        except (DataError, ConfigError) as error:
            if in_words is None:
                raise
            failed[name] = str(error)
        tick(1)
    if len(vectors) < 2:
        reasons = "; ".join(f"{name}: {why}" for name, why in failed.items())
        raise DataError(f"fewer than two of {len(arms)} arms could be trained: {reasons}")
    tick = ticker(progress, STEPS * len(arms), total, "scoring")
    evaluation, notes = _scored(vectors, histories[0], labels, label, progress=tick, **scoring)
    notes = tuple(dict.fromkeys([*(note for each in histories for note in each.notes), *notes]))
    return answer(evaluation, costs, failed, in_words, notes, [*_unfair(vectors), *doubts(notes)])


def _unfair(vectors: Mapping[str, tables.Embeddings]) -> list[str]:
    """Return what is not fair in a comparison of runs: labels that some learned from, and entities that some saw."""
    learned = {name: ", ".join(map(shown, z.metadata.get("labels") or ())) for name, z in vectors.items()}
    lines = [
        f"{name} was trained on {labels}, and only a hold-out test is fair to that."
        for name, labels in learned.items()
        if labels
    ]
    holdouts = [z.metadata.get("holdouts") or () for z in vectors.values()]
    if len({tuple((each.get("fraction"), each.get("seed")) for each in runs) for runs in holdouts}) > 1:
        lines.append("The runs held out different entities, so some encoders saw events that others did not.")
    return lines


def _read(
    run: Model, data: Dataset | Tabular, labels: Tabular, label: str, time: LabelTime, _: Tick
) -> tuple[Model, Dataset]:
    """Return a run that exists, and the histories as of the times of the labels."""
    read = run.read(data)
    check_entities(read)
    return run, labelled_histories(read, labels_beside(read, labels, [label], time))


def _embedded(run: Model, data: Dataset) -> tuple[tables.Embeddings, dict[str, Any]]:
    """Return the vectors of a run, without the places of their parts, and what they cost, see `compared.COSTS`."""
    start = perf_counter()
    z = embed(run.representation, data)
    seconds = perf_counter() - start
    last = int(run.history[-1]["epoch"] or 0) if run.info.get("history") else 0
    weights = sum(weight.numel() for weight in run.representation.parameters())
    costs = {"training": float(run.info.get("seconds", 0)), "embedding": 1e3 * seconds / max(len(data), 1)}
    whole = {name: value for name, value in z.metadata.items() if name != "parts"}
    return replace(z, metadata=whole), {**costs, "weights": weights, "dim": z.shape[1], "epochs": last}


def _trained(
    path: Path, arm: Table, data: Dataset, labelled: Dataset, bound: Mapping[str, Any], seed: int, tick: Tick
) -> tuple[Model, Dataset]:
    """Return the run of an arm: the finished one in its folder, or one that is trained now or trained further."""
    begun = (path / "model.json").is_file()
    if begun and read_info(path)["finished"]:
        return load(path), labelled
    table = {**arm, "fit": {"beside": [], **arm.get("fit", {}), **bound, "seed": seed}}
    run = fit(data, method=table, out=path, resume=begun, progress=lambda record: tick(float(record["share"] or 0.0)))
    return run, labelled


def _scored(
    vectors: Mapping[str, tables.Embeddings], data: Dataset, labels: Tabular, label: str, **options: Any
) -> tuple[Evaluation, tuple[str, ...]]:
    """Return the scores of all arms in the same folds, each under its own name, and notes."""
    (first, z), *others = vectors.items()
    features = {name: each.frame(wide=True).drop("events", "last_time") for name, each in others}
    result = evaluate(z, data, labels, label, features=features, **options)
    scored: Evaluation = result.basis
    results = tuple(
        replace(each, features=first if each.features == "embedding" else each.features)
        for each in scored.results
        if each.features not in MADE
    )
    return replace(scored, results=results), result.notes
