"""`tune`: trains and scores the trials of a search, resumes what was killed, and tests the best settings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from eventvec import models
from eventvec.answers import Answer
from eventvec.blocks.untrained import EventBlock, sizes_beside
from eventvec.comparing.plans import PLAN, STEPS, Progress, begin, budget, ticker
from eventvec.config import Table
from eventvec.dataset import Dataset, check_entities
from eventvec.embedding import choose_device, encode
from eventvec.encoders.interface import Encoder
from eventvec.errors import CheckpointError, ConfigError, DataError, need, shown
from eventvec.evaluation.result import Evaluation
from eventvec.files import locked, path_only, sweep, write_text
from eventvec.methods.declarations import declared
from eventvec.models import Record
from eventvec.options import accepts, gather, gather_all
from eventvec.sequences import Array
from eventvec.tables.keys import holdout_mask
from eventvec.tables.read_options import LabelTime
from eventvec.tables.sources import Tabular
from eventvec.training import FitOptions, fit
from eventvec.training.flat_settings import tables_of
from eventvec.training.setup import set_up
from eventvec.tuning.scores import LabelledRows, labelled_rows
from eventvec.tuning.space import Space, search_space, value_at, with_values
from eventvec.tuning.trials import FINISHED, PRUNED, Trial, proposed, read_trials, write_trials
from eventvec.tuning.tune_options import TuneOptions
from eventvec.tuning.tuned import BEST, DEFAULTS, SEARCHED, decision

THIRDS = 3
"""The parts of a training, after each of which but the last it may be pruned."""


@accepts(TuneOptions, LabelTime)
def tune(
    data: Dataset,
    labels: Tabular,
    label: str,
    *,
    out: Path | str,
    method: str | Mapping[str, Any] = "coles",
    encoder: str | Mapping[str, Any] | None = None,
    settings: Mapping[str, Sequence[Any]] | None = None,
    device: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Answer:
    """Return which settings to use, by a search with Optuna, and whether it paid on entities that it never saw.

    A share of the entities is held out: no trial trains on them, scores them or is chosen by them. Each trial trains an
    encoder without labels on the others. Its score is that of a linear model on their labels in cross-validation. The
    first trial has the defaults; a tree-structured Parzen estimator proposes the others. One whose score after a third
    or two thirds of its budget is below the median of the trials before it is pruned. At the end, the best settings and
    the defaults are scored on the entities held out. The search paid if their difference is above 0 by more than its
    interval; otherwise the defaults are advised.

    Trainings read all events of these entities, without labels; vectors are scored as of the times of the labels.

    The folder has the plan, the trials and a run for each trial that finished. A search that was killed goes on with
    `resume`, or gets more trials: those that are over are not repeated, and one that was under way begins again. With a
    budget of epochs, the result is the same as without the interruption.

    The vocabularies and scales of the schema are those of `data`. Read the data by the schema of
    ``read(..., holdout=0.2, holdout_seed=seed)``, as the command line does, to keep them from the test entities too.

    Relations: `compare` chooses among methods and encoders.

    Args:
        data: The entities.
        labels: A table with the key and the label, and the time of each label if there is one.
        label: The column to predict.
        out: The folder for the plan and the runs.
        method: The method, as for `fit`, which learns without labels.
        encoder: The encoder, as for `fit`.
        settings: The values to try by the dotted name of each setting, such as ``{"encoder.dim": [64, 256]}``; by
            default, multiples of the defaults of `space.MATTER`.
        device: Where training happens, as for `fit`.
        progress: Called with the steps that are done, all steps, and what is being done.
        options: The fields of `TuneOptions` (trials, time_budget, epochs, holdout, folds, seed, resume) and of
            `tables.read_options.LabelTime` (label_time, inclusive), as for `evaluate`.

    Returns:
        An answer with a row for each trial, the defaults first: its settings, its `score` in the search, the seconds of
        its training, how it ended (`end`), and its `run`. Facts are the advised `settings` by their dotted names, empty
        for the defaults, the folder of their `run`, and the score of the `best` trial in the test; the tables `results`
        and `differences` are those of the test.

    Raises:
        ConfigError: If Optuna is not installed, a setting is not known, both budgets are given, or the data were read
            with a hold-out already.
        CheckpointError: If the folder has files already, or a search with other data, labels or settings.
        DataError: If the defaults cannot be trained, or the labels cannot be used.

    Example:
        >>> import tempfile
        >>> from eventvec import datasets
        >>> data, labels = datasets.flights()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = tune(data[:100], labels, "built_2002", epochs=1, trials=2, out=folder,
        ...                   settings={"encoder.dim": [8]})
        >>> [row["encoder.dim"] for row in result.rows]
        [16, 8]
    """
    need("optuna", "tune")
    check_entities(data)
    folder = path_only(out)
    chosen, time = gather_all(options, TuneOptions, LabelTime)
    seed, folds, holdout, trials = chosen.seed, chosen.folds, chosen.holdout, chosen.trials
    if data.origin.holdout is not None:
        raise ConfigError("the data were read with holdout, and a search holds out entities of its own; read them all")
    if device is not None:
        choose_device(device)
    bound, _ = budget(chosen.time_budget, chosen.epochs)
    held_out = holdout_mask(data.keys, holdout, seed)
    origin = data.origin.including(holdout=holdout, holdout_seed=seed)
    searched = replace(data[~held_out], origin=origin)
    same = {f"fit.{name}": value for name, value in {**bound, "seed": seed}.items()}
    tables = with_values(tables_of(method, encoder), same)
    if value_at(tables, "encoder.from") is not None:
        raise ConfigError("encoder.from names a run, which may have seen the test entities; leave it out")
    space, first = search_space(searched, tables, settings)
    if declared(set_up(searched, tables)[0]).label_fields:
        raise ConfigError(
            f"the method {shown(value_at(tables, 'method.name'))} learns from labels; name one that does not"
        )
    rows = labelled_rows(data, labels, label, time, holdout, folds, seed)
    described = {
        "fingerprint": data.fingerprint, "tables": tables, "settings": space, "labels": rows.digest, "folds": folds,
        "holdout": holdout, "seed": seed,
    }  # fmt: skip
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; name a new folder for the search")
    with locked(folder) as free:
        if not free:
            raise CheckpointError(f"another process searches in {folder}; wait until it ends, or name another folder")
        begin(folder, described, chosen.resume, "search")
        sweep(folder)
        search = _Search(searched, rows, tables, space, folder, folds, seed, device)
        history, total = read_trials(folder), STEPS * trials
        while len(history) < trials and (proposal := proposed(history, space, first, seed)):
            number = len(history)
            try:
                tick = ticker(progress, number * STEPS, total, f"trial {number}")
                history.append(search.trial(number, proposal, tick))
            except (ConfigError, DataError):  # of the defaults, so there is nothing to go on with
                (folder / PLAN).unlink()
                raise
            write_trials(folder, history)
        result = search.result(history)
        write_text(folder / "result.json", json.dumps(result.to_dict(), indent=1))
    return result


class _Pruned(Exception):
    """Ends a training that is behind the others."""


@dataclass
class _Search:
    """What all trials of a search share."""

    data: Dataset
    rows: LabelledRows
    tables: Table
    space: Space
    folder: Path
    folds: int
    seed: int
    device: str | None
    _beside: dict[str, list[Array]] = field(default_factory=dict)

    def trial(self, number: int, proposal: Any, tick: Callable[[float], None]) -> Trial:
        """Return a trial after its training."""
        path, places, scores, seconds = self._path(number), dict(proposal.params), dict[str, float](), 0.0
        shutil.rmtree(path, ignore_errors=True)  # what was under way when the search was killed

        def watch(record: Record) -> None:
            nonlocal seconds
            share, seconds = float(record["share"] or 0), float(record["seconds"] or 0)
            tick(share)
            third = int(share * THIRDS)
            if 0 < third < THIRDS and str(third) not in scores:
                scores[str(third)] = self._score(self._vectors(method.encoder, options))
                proposal.report(scores[str(third)], third)
                if proposal.should_prune():
                    raise _Pruned(PRUNED)

        try:
            method, tables = set_up(self.data, with_values(self.tables, self._settings(places)))
            options = gather(tables["fit"], FitOptions)
            run = fit(self.data, method=method, out=path, device=self.device, progress=watch, **tables["fit"])
            score = self._score(run.embed(self.rows.searched).values)
        except (_Pruned, ConfigError, DataError) as error:
            shutil.rmtree(path, ignore_errors=True)
            if not number:  # the defaults, which are never pruned
                raise
            return Trial(places, scores, None, seconds, str(error))
        return Trial(places, scores, score, run.seconds, FINISHED)

    def result(self, history: Sequence[Trial]) -> Answer:
        """Return the answer, after the best settings and the defaults were tested."""
        finished = [number for number, trial in enumerate(history) if trial.score is not None]
        best = max(finished, key=lambda number: (history[number].score, -number))
        tested = {DEFAULTS: 0} if best == 0 else {BEST: best, DEFAULTS: 0}
        loaded = {name: models.load(self._path(number)) for name, number in tested.items()}
        vectors = {name: run.embed(self.rows.examples.rows).values for name, run in loaded.items()}
        tested_on = self.rows.score(vectors, self.folds, self.seed, test=True)
        evaluation: Evaluation = tested_on.basis
        defaults = self._settings(history[0].places)
        changed = {n: v for n, v in self._settings(history[best].places).items() if v != defaults[n]}
        lines, is_ahead = decision(evaluation, changed, self.rows.test_entities, len(history) - 1)
        rows = tuple(
            {
                "trial": number, **self._settings(trial.places), "score": trial.score,
                "seconds": round(trial.seconds, 1), "end": trial.end,
                "run": str(self._path(number)) if trial.score is not None else None,
            }
            for number, trial in enumerate(history)
        )  # fmt: skip
        notes = (*self.rows.examples.notes, *tested_on.notes, *SEARCHED)
        advised, chosen = (changed, best) if is_ahead else ({}, 0)
        on_test = evaluation.deciding[next(iter(tested))].main.estimate
        facts = {**evaluation.facts, "best": on_test, "settings": advised, "run": str(self._path(chosen))}
        title, tables = "Which settings for these events?", {"trials": rows, **evaluation.tables}
        lines = (*lines, f"The run: {self._path(chosen)}")
        return Answer(lines, tables, notes, facts=facts, title=title, basis=evaluation)

    def _path(self, number: int) -> Path:
        return self.folder / f"trial-{number:02}"

    def _settings(self, places: Mapping[str, int]) -> dict[str, Any]:
        return {name: self.space[name][place] for name, place in places.items()}

    def _score(self, vectors: Array) -> float:
        evaluation = self.rows.score({"embedding": vectors}, self.folds, self.seed, test=False)
        return float(evaluation.rows[0]["score"].value)

    def _vectors(self, encoder: Encoder, options: FitOptions) -> Array:
        """Return `(n, d)` vectors of the searched rows in the midst of a training, with the parts beside."""
        key = repr((options.beside, options.components))
        if key not in self._beside:
            sizes = sizes_beside(self.data.schema, options.beside, options.components)
            rows = self.data.sequences[self.data.sequences.lengths > 0]
            parts = [EventBlock.of(name, self.data.schema, each, rows).encoder for name, each in sizes.items()]
            self._beside[key] = [encode(part, self.rows.searched.sequences).numpy() for part in parts]
        return np.concatenate([encode(encoder, self.rows.searched.sequences).numpy(), *self._beside[key]], axis=1)
