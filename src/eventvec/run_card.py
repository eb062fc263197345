"""The model card of a run with its scores, which come from evaluations of its embeddings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, FiniteFloat, PositiveInt, ValidationError

from eventvec.checkpoint import Run, check_run
from eventvec.errors import CheckpointError, ConfigError, DataError, misfit, shown
from eventvec.evaluation import Evaluation
from eventvec.files import path_only
from eventvec.methods.declarations import declared
from eventvec.model_card import render_card
from eventvec.run_files import read_info
from eventvec.run_writing import write_text, writer

Source = Evaluation | Mapping[str, Any] | str | os.PathLike[str]


class _Result(BaseModel):
    """What a card shows of a result."""

    features: str
    model: str
    fraction: FiniteFloat
    mean: FiniteFloat
    interval: FiniteFloat


class _Scores(BaseModel):
    """What a card shows of an evaluation."""

    label: str
    metric: str
    n: PositiveInt
    folds: PositiveInt
    protocol: str
    verdict: str
    run: str | None = None
    results: list[_Result]


def card(run: Run, evaluations: Sequence[Source] = (), *, save: bool = False) -> str:
    """Return the model card of a run as Markdown: data, settings, scores, limits, and how to use it.

    Training writes the card into the run folder as `README.md`, without scores, because there are none yet.

    Args:
        run: The run.
        evaluations: Evaluations of its embeddings: what `evaluate` returned, or files with the JSON that
            ``eventvec evaluate --json`` printed.
        save: Whether the card replaces the one in the run folder.

    Raises:
        ConfigError: If the run has no folder to save to, or no configuration.
        DataError: If an evaluation cannot be read, or is of the embeddings of another run.
        CheckpointError: If another process writes the run folder, or it holds another run by now.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [1, 1, 2, 2], "day": [1, 2, 1, 2], "paid": [0.5, 1.0, 2.0, 3.0]})
        >>> run = ev.fit("ocp", ev.read(events, key="card", time="day", numeric=["paid"]), epochs=1)
        >>> [line for line in card(run).splitlines() if line.startswith("## ")][:4]
        ['## Data and training', '## Settings', '## Scores', '## Limits']
    """
    check_run(run)
    if not run.config:
        raise ConfigError(f"run {run.id} has no configuration, because its method has no name, and so it has no card")
    scores = [_plain(run, each) for each in evaluations]
    text = render_card(run.config, run.schema, run.info, declared(run.method).card, scores)
    if save:
        if run.path is None:
            raise ConfigError(f"run {run.id} has no folder; save it first: run = run.save(path)")
        with writer(run.path):
            if read_info(run.path)["id"] != run.id:
                raise CheckpointError(f"{run.path} holds another run by now than {run.id}; load it again")
            write_text(run.path / "README.md", text)
    return text


def _plain(run: Run, source: Source) -> dict[str, Any]:
    """Return what the card shows of an evaluation of the run's embeddings."""
    try:
        if isinstance(source, str | os.PathLike):
            name = os.fspath(source)
            evaluation = _Scores.model_validate_json(path_only(source).read_bytes())
        else:
            name = "the evaluation"
            evaluation = _Scores.model_validate(source.to_dict() if isinstance(source, Evaluation) else source)
    except ValidationError as error:
        raise DataError(f"{name} is not what `eventvec evaluate --json` printed: {misfit(error)}") from error
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}") from error
    if not evaluation.results:
        raise DataError(f"{name} has no results; give what `eventvec evaluate --json` printed")
    if evaluation.run != run.id:
        of = "names no run" if evaluation.run is None else f"is of run {shown(evaluation.run)}"
        raise DataError(f"{name} {of}, and the card is of run {run.id}; evaluate embeddings of this run")
    return evaluation.model_dump()
