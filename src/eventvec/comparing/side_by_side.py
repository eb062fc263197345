"""`compare`: trains the arms, scores them in the same folds, and resumes what was killed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import polars as pl

from eventvec import runs, tables
from eventvec.comparing.arms import plan
from eventvec.comparing.compared import Comparison, Cost
from eventvec.comparing.winner import choose
from eventvec.config import Table
from eventvec.dataset import Dataset, check_entities
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.evaluation import Evaluation, evaluate, target
from eventvec.evaluation.conclusion import deciding_cell
from eventvec.evaluation.joined_labels import join_timed
from eventvec.evaluation.models import choose as choose_models
from eventvec.evaluation.part_sets import is_part
from eventvec.evaluation.protocols import choose_protocol
from eventvec.evaluation.result import TOGETHER
from eventvec.evaluation.suspicion import suspicion
from eventvec.files import path_only, sweep, write_text
from eventvec.options import check_seed
from eventvec.runs.run_files import read_info
from eventvec.tables.label_times import LabelTime, labelled_histories
from eventvec.tables.sources import Tabular
from eventvec.training import fit

Progress = Callable[[int, int, str], None]
PLAN, STEPS = "plan.json", 1000
BUDGET = 60.0


def compare(
    data: Dataset,
    labels: Tabular,
    label: str,
    *,
    out: Path | str,
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]] | None = None,
    encoders: Sequence[str] = ("gru",),
    time_budget: float | None = None,
    epochs: int | None = None,
    folds: int = 5,
    models: Sequence[str] | None = None,
    label_time: str | None = None,
    inclusive: bool = False,
    seed: int = 0,
    resume: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Return which of several methods and encoders to use: scores under one budget in the same folds, and costs.

    Each arm is trained without labels on the same entities, with the sizes that `fit` derives from the data and without
    parts beside the learned vector. Then all vectors are scored by the same models in the same folds, beside
    aggregates, hand-crafted features, the number of events and an encoder without training. One arm wins only if it is
    ahead of all others after allowing for the choice, see `winner.choose`; otherwise the result says why not, and names
    the cheapest of the arms that are level.

    A budget of time compares what a user gets for the same waiting on this machine; one of epochs compares equal passes
    over the data, repeats exactly, and favours expensive methods. Encoders see the entities of all folds, but no
    labels.

    The folder has the plan and a run for each arm. What was killed goes on with `resume`; arms that are finished are
    not trained again. With a budget of epochs, the result is the same as without the interruption. An arm that cannot
    be trained on the data is reported with the reason, and the others go on.

    Relations: `fit` and `evaluate` do one arm.

    Args:
        data: The entities.
        labels: A table with the key and the label, and the time of each label if there is one.
        label: The column to predict.
        out: The folder for the plan and the runs.
        methods: Names of methods; by default one for each idea, whatever the events are like. They are those of
            `arms.TRIED`. Tables of a configuration (`method`, `encoder`, `fit`) by the name of the arm are accepted.
        encoders: Names of encoders; each method is trained with each of them.
        time_budget: The seconds of training of each arm; 60 if `epochs` is not given either.
        epochs: The epochs of each arm.
        folds: The number of folds.
        models: The models that are scored, as for `evaluate`. The first of `conclusion.MODELS` among them decides.
        label_time: The column with the time of each label, as for `evaluate`. Vectors are made from earlier events;
            training reads all events of the data, without labels.
        inclusive: Events at the very time of a label are read too.
        seed: The seed of training and of the folds.
        resume: Whether a plan that was begun in the folder goes on.
        progress: Called with the steps that are done, all steps, and what is being done.

    Raises:
        ConfigError: If a name is not known, both budgets are given, or there are fewer than two arms.
        CheckpointError: If the folder has files already, or a plan of other arms, events or budgets.
        DataError: If no two arms can be trained, or the labels cannot be used.

    Example:
        >>> import tempfile
        >>> from eventvec import datasets
        >>> data, labels = datasets.flights()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = compare(data[:400], labels, "built_2002", methods=["coles", "ocp"], epochs=1,
        ...                      models=["logistic_regression"], out=folder)
        >>> sorted(result.costs), result.evaluation.folds
        (['coles', 'ocp'], 5)
    """
    check_entities(data)
    folder = path_only(out)
    check_seed("seed", seed, 31)
    if time_budget is not None and epochs is not None:
        raise ConfigError("time_budget and epochs are both given; every arm has one budget, so give one of them")
    bound: dict[str, Any] = {"epochs": epochs} if epochs else {"time_budget": time_budget or BUDGET}
    arms = plan(methods, encoders)
    time = LabelTime(label_time, inclusive)
    labels, labelled = _usable(labels, label, time, data, models, folds, seed)
    _begin(folder, {"fingerprint": data.fingerprint, "arms": arms, "budget": bound, "seed": seed}, resume)
    total, done, failed = STEPS * (len(arms) + 1), 0, dict[str, str]()
    vectors, costs = dict[str, tables.Embeddings](), dict[str, Cost]()
    for place, (name, arm) in enumerate(arms.items()):
        tick = _ticker(progress, place * STEPS, total, name)
        try:
            run = _trained(folder / f"arm-{place:02}", arm, data, bound, seed, tick)
            start = perf_counter()
            vectors[name] = run.embed(labelled)
            seconds = perf_counter() - start
            weights = sum(weight.numel() for weight in run.encoder.parameters())
            last = int(run.history[-1]["epoch"] or 0) if run.history else 0
            costs[name] = Cost(run.seconds, 1e3 * seconds / len(labelled), weights, vectors[name].shape[1], last)
        except (DataError, ConfigError) as error:
            failed[name] = str(error)
        done = (place + 1) * STEPS
        if progress:
            progress(done, total, name)
    if len(vectors) < 2:
        reasons = "; ".join(f"{name}: {why}" for name, why in failed.items())
        raise DataError(f"fewer than two of {len(arms)} arms could be trained: {reasons}")
    result = _scored(vectors, labelled, labels, label, progress=_ticker(progress, done, total, "scoring"), folds=folds,
                     models=models, seed=seed, **vars(time))  # fmt: skip
    model, _ = deciding_cell(result)
    scores = {r.features: r.main for r in result.results if r.model == model and r.features in costs}
    pairs = [d for d in result.differences if d.model == model and d.a in costs and d.b in costs]
    choice = choose(scores, pairs, {name: cost.training for name, cost in costs.items()}, result.n, result.metric)
    budget = f"{epochs} epochs" if epochs else f"{bound['time_budget']:g} s of training"
    comparison = Comparison(result, model, costs, failed, choice, budget, (*data.notes, *result.notes))
    write_text(folder / "result.json", json.dumps(comparison.to_dict(), indent=1, default=str))
    return comparison


def _usable(
    labels: Tabular, label: str, time: LabelTime, data: Dataset, models: Sequence[str] | None, folds: int, seed: int
) -> tuple[pl.DataFrame, Dataset]:
    """Return the table of labels, and the histories as of their times; refuse what `evaluate` would refuse later."""
    labelled, timed, key = labelled_histories(data, labels, [label], (), None, time)
    joined = join_timed(
        labelled.keys, data.schema.key_out, timed, label, table_key=key, group=None, moments=labelled.moments,
        origin=labelled.origin.options,
    )  # fmt: skip
    learned = target(joined.labels, name=label)
    choose_models(learned.task, models)
    choose_protocol(learned, None, None, None, both_sides=False, folds=folds, seed=seed, learned_from=())
    return timed.table, labelled


def _begin(folder: Path, described: Mapping[str, Any], resume: bool) -> None:
    """Write the plan into a new folder, or check that a folder has the same one."""
    path, text = folder / PLAN, json.dumps(described, indent=1, default=str)
    if path.is_file():
        if not resume:
            raise CheckpointError(
                f"{folder} holds a comparison already; go on with resume=True (--resume), or name another folder"
            )
        before, now = json.loads(path.read_text()), json.loads(text)
        if different := [name for name in now if before.get(name) != now[name]]:
            raise CheckpointError(
                f"the comparison in {folder} was begun with another {different[0]}; name a new folder, or give the same"
            )
        return
    if folder.exists():
        sweep(folder)
        if any(folder.iterdir()):
            raise CheckpointError(f"{folder} is not empty and holds no comparison; name a new folder")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_text(path, text)


def _trained(
    path: Path, arm: Table, data: Dataset, bound: Mapping[str, Any], seed: int, tick: Callable[[float], None]
) -> runs.Run:
    """Return the run of an arm: the finished one in its folder, or one that is trained now or trained further."""
    begun = (path / "run.json").is_file()
    if begun and read_info(path)["finished"]:
        return runs.load(path)
    table = {**arm, "fit": {"beside": [], **arm.get("fit", {}), **bound, "seed": seed}}
    return fit(table, data, out=path, resume=begun, progress=lambda record: tick(float(record["share"] or 0.0)))


def _ticker(progress: Progress | None, before: int, total: int, name: str) -> Callable[..., None]:
    """Return a function of a share, or of what is done and all, that moves the progress of the whole plan."""

    def tick(done: float, of: int = 1) -> None:
        if progress:
            progress(before + int(STEPS * min(done / max(of, 1), 1.0)), total, name)

    return tick


def _scored(
    vectors: Mapping[str, tables.Embeddings], data: Dataset, labels: Tabular, label: str, **options: Any
) -> Evaluation:
    """Return the scores of all arms in the same folds, each under its own name; the verdict is what to doubt only."""
    (first, z), *others = vectors.items()
    features = {name: each.frame(wide=True).drop("events", "last_time") for name, each in others}
    result = evaluate(z, data, labels, label, features=features, **options)

    def named(name: str) -> str:
        return first if name == "embedding" else name

    def stays(*names: str) -> bool:
        return not any(name in TOGETHER or is_part(name) for name in names)

    results = tuple(replace(r, features=named(r.features)) for r in result.results if stays(r.features))
    differences = tuple(replace(d, a=named(d.a), b=named(d.b)) for d in result.differences if stays(d.a, d.b))
    result = replace(result, results=results, differences=differences)
    return replace(result, verdict=suspicion(result))
