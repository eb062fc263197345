"""What `EventClassifier` and `EventRegressor` share: how they learn, read, predict and describe themselves."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa

from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, nearest, shown
from eventvec.options import above_zero, at_least, check_seed, option_types
from eventvec.predicting.event_predictor import Effort, Predictor, learn
from eventvec.predicting.families import Rows
from eventvec.predicting.frames import frame_of, library_of
from eventvec.predicting.labelled_rows import Learning, of_array, of_table
from eventvec.predicting.rows_to_predict import Asked, identifying, rows_to_predict
from eventvec.runs import Run
from eventvec.sequences import Array
from eventvec.tables import read
from eventvec.tables.read_options import TableFormat
from eventvec.tables.sources import Tabular, kept
from eventvec.tables.times import Instant
from eventvec.training.progress_bars import bar

SEED_BITS = 31
"""The size of seeds that LightGBM takes."""
METRICS_OF_NUMBERS = ("r2", "mae")
MOST_VALUES = 100_000_000
"""The largest number of rows times features on which boosted trees are trained; about five minutes on two cores."""


def class_names(predictor: Predictor) -> list[str]:
    """Return the classes as text, in the order of the probabilities."""
    return [str(name) for name in pa.array(predictor.target.classes).cast(pa.string()).to_pylist()]


def learn_in_place(model: Any, events: Any, labels: Any, asked: Learning) -> None:
    """Train a model in place; it is as before if that fails."""
    if model.budget is not None:
        above_zero("budget", model.budget)
    at_least("most_values", model.most_values, 1)
    metric = getattr(model, "metric", "r2")
    if metric not in METRICS_OF_NUMBERS:
        raise ConfigError(f"metric {shown(metric)} is not known; {nearest(metric, METRICS_OF_NUMBERS)}")
    check_seed("random_state", model.random_state, SEED_BITS)
    if model.vector is not None and not isinstance(model.vector, Run):
        raise ConfigError(f"vector must be a Run, got {type(model.vector).__name__}; load it: ev.load(path)")
    deadline = None if model.budget is None else time.monotonic() + model.budget
    data = events if isinstance(events, Dataset) else None
    if asked.label is not None:
        source = events if data is not None else kept(events)  # which may be read twice
        with bar("reading", model.progress):
            learned = of_table(data, lambda **cuts: _read(model, source, cuts), labels, asked)
    elif data is None:
        raise ConfigError("name the column of the table of labels to predict: fit(events, labels, 'churn')")
    else:
        learned = of_array(data, labels, asked)
    with bar("training", model.progress) as tick:
        effort = Effort(model.random_state, "mae" if metric == "mae" else None, model.most_values, deadline, tick)
        predictor = learn(learned.lesson, effort)
    model.predictor_ = replace(
        predictor, label_time=learned.label_time, inclusive=asked.time.inclusive, vector=model.vector,
        notes=(*learned.notes, *predictor.notes),
    )  # fmt: skip
    model.notes_ = model.predictor_.notes


def _read(model: Any, events: Any, cuts: Mapping[str, Any]) -> Dataset:
    """Return the events of a table, cut at times if any are given."""
    if model.vector is not None:
        formats = option_types(TableFormat)
        options = {name: value for name, value in (model.reading or {}).items() if name in formats}
        return read(events, schema=model.vector.schema, **options, **cuts)
    for name in ("key", "time"):
        if getattr(model, name) is None:
            raise ConfigError(f"{name} is not given; name the column: {type(model).__name__}(key=..., time=...)")
    options = {"key": model.key, "time": model.time, "categorical": model.categorical, "numeric": model.numeric}
    options |= model.reading or {}
    if cuts and options.get("store") is not None:
        raise ConfigError(
            "a store holds the events of one reading, and labels with times need two, because vocabularies come from "
            "earlier events; leave store out, or give data that were read with cutoffs= and store="
        )
    return read(events, **{**options, **cuts})


def predictions_of(
    model: Any,
    events: Any,
    cutoffs: Tabular | None,
    column: str | None,
    until: Instant | None,
    static: Tabular | None,
    labels: Tabular | None,
    features: Mapping[str, Tabular] | None,
) -> tuple[Array, Rows]:
    """Return the predictions of a model, and the rows that they are of."""
    predictor = cast(Predictor, model.predictor_)
    formats = option_types(TableFormat)
    reading = {name: value for name, value in (model.reading or {}).items() if name in formats}
    with bar("reading", model.progress):
        rows = rows_to_predict(
            predictor, events, Asked(cutoffs, column, until, static, labels, features or {}), reading
        )
    with bar("predicting", model.progress):
        return predictor.predict(rows), rows


def predicted_frame(events: Any, rows: Rows, names: Sequence[str], values: Sequence[Array]) -> Any:
    """Return predictions as a frame of the library of the events, with the key and the time of each row."""
    columns = identifying(rows)
    for name in columns:
        if name in names:
            raise ConfigError(
                f"the column {shown(name)} is called like a column of the predictions; give it another name, the key "
                'by reading={"key_as": "entity"}'
            )
    (key, keys), *times = columns.items()
    return frame_of(library_of(events), key, keys, [*dict(times), *names], [*dict(times).values(), *values])


def arguments_of(model: Any) -> dict[str, Any]:
    """Return the arguments of the constructor that JSON can hold, for `load`."""
    given = {name: value for name, value in model.get_params(deep=False).items() if name != "vector"}
    formats = option_types(TableFormat)
    reading = {name: value for name, value in (given["reading"] or {}).items() if name in formats}
    for name in ("categorical", "numeric"):
        given[name] = None if given[name] is None else [str(each) for each in given[name]]
    return {
        **given,
        "reading": reading or None,
        "budget": None if given["budget"] is None else float(given["budget"]),
        "most_values": int(given["most_values"]),
        "random_state": int(model.random_state),
    }


def described(model: Any) -> str:
    """Return what a trained model is worth, or the arguments of one that is not trained."""
    return repr(model.explain()) if hasattr(model, "predictor_") else repr(model)


def shown_in_notebooks(model: Any) -> dict[str, str]:
    """Return what a notebook shows of a trained model: what it is worth. Others have the diagram of scikit-learn."""
    if not hasattr(model, "predictor_"):
        return {}
    answer = model.explain()
    return {"text/plain": repr(answer), "text/html": answer._repr_html_()}


def tags_of_events(tags: Any) -> Any:
    """Return the tags of an estimator of scikit-learn that takes events, which are no array of two dimensions."""
    tags.input_tags.two_d_array = False
    tags.no_validation = True  # eventvec checks events itself
    return tags
