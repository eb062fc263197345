"""What `fit --labels` and `predict` do with a predictor, the model of a label without a trained network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from eventvec import tables
from eventvec.cli import terminal
from eventvec.cli.event_inputs import counts
from eventvec.errors import ConfigError
from eventvec.learners.task import target
from eventvec.options import option_types, those_of
from eventvec.tables.addresses import public_name
from eventvec.tables.label_times import refuse_empty
from eventvec.tables.outputs import MARK
from eventvec.tables.read_options import GROUPS, StaticColumns
from eventvec.tables.sources import read_table
from eventvec.training.progress_bars import bar


def fit_labels(
    events: Any,
    labels: str | None,
    label: str | None,
    out: Path | None,
    options: Mapping[str, Any],
    learning: dict[str, Any],
    json_: bool,
) -> None:
    """Learn to predict a label, write the folder, and show what the model is worth.

    Args:
        events: The path of the events, or the paths of several tables by their names.
        labels: The table of labels.
        label: The column to predict.
        out: The folder to write.
        options: The options of `fit`: those of `ev.read`, `label_time`, `time_budget` and `seed`.
        learning: `weight`, `earlier_labels` and `features` of `EventClassifier.fit`, and `metric` of `EventRegressor`.
    """
    from eventvec.predicting.event_estimators import EventClassifier, EventRegressor
    from eventvec.predicting.predictor_files import check_new

    if labels is None or label is None:
        raise ConfigError("give --labels TABLE and --label COLUMN together: the table of labels, and what to predict")
    if cut := next((name for name in ("cutoffs", "cutoff_column") if options.get(name) is not None), None):
        raise ConfigError(
            f"--{cut.replace('_', '-')} is given with --labels; labels have times of their own: --label-time COLUMN"
        )
    used = {name for group in GROUPS for name in option_types(group)} | {"label_time", "time_budget", "seed"}
    if unused := [name for name, value in options.items() if name not in used and value is not None]:
        raise ConfigError(
            f"--{unused[0].replace('_', '-')} is of networks, and --labels trains none; to train one on labels: "
            "--static TABLE --method supervised --set method.label=COLUMN"
        )
    if out is None:
        raise ConfigError("name the folder to write: --out FOLDER")
    check_new(out)
    reading = those_of(options, *GROUPS)
    columns = {name: reading.pop(name, None) for name in ("key", "time", "categorical", "numeric")}
    static = {name: reading.pop(name, None) for name in option_types(StaticColumns)}["static"]
    inclusive = bool(reading.pop("inclusive", False))
    metric = learning.pop("metric")
    given = {"budget": options.get("time_budget"), "random_state": options.get("seed"), "metric": metric}
    chosen = {name: value for name, value in given.items() if value is not None}
    time = {"label_time": options.get("label_time"), "inclusive": inclusive}
    table = read_table(labels, [label], "the label table")
    refuse_empty(table)
    is_number = target(table[label].to_arrow(), None, label).task == "numeric"
    if metric is not None and not is_number:
        raise ConfigError(f"--metric is for numbers, and {label!r} has classes; leave it out")
    model: Any = (EventRegressor if is_number else EventClassifier)(**columns, reading=reading, **chosen)
    model.fit(events, labels, label, static=static, **time, **learning)
    model.save(out)
    answer = model.explain()
    terminal.notes(answer.notes)
    facts = {"run": str(out), "families": list(model.predictor_.families)}
    terminal.answer({**answer.to_dict(), **facts}, answer.render(), json_)


def predict_labels(
    run: Path, events: Any, output: str, options: Mapping[str, Any], overwrite: bool, json_: bool
) -> None:
    """Write one prediction per entity, and for classes the probability of each.

    Args:
        run: The folder of a predictor.
        events: The path of the events, or the paths of several tables by their names.
        output: The file or table to write.
        options: The options of `predict`: those of `tables.read_options` for cuts and formats, `static`, `labels`, and
            `features` by their names.
    """
    from eventvec.predicting.predictor_files import load_predictor
    from eventvec.predicting.rows_to_predict import Asked, identifying, rows_to_predict

    beside = [options.get(name) for name in ("cutoffs", "static", "labels")]
    tables.check_output(output, [run, events, *beside, *options.get("features", {}).values()], overwrite=overwrite)
    predictor, given = load_predictor(str(run))
    if "at" in options:
        raise ConfigError("a predictor does not predict at places; leave out --at")
    asked = those_of(options, Asked)
    formats = {name: value for name, value in options.items() if name not in {*asked, "inclusive"}}
    with bar("reading"):
        rows = rows_to_predict(predictor, events, Asked(**asked), {**(given["reading"] or {}), **formats})
    terminal.notes(rows.data.notes)
    with bar("predicting"):
        values = predictor.predict(rows)
    columns: dict[str, Any] = {"prediction": values}
    if predictor.target.task != "numeric":
        names = predictor.class_names
        likeliest = pa.array(names).take(pa.array(values.argmax(1)))
        columns = {
            "prediction": likeliest,
            **{f"p_{name}": column for name, column in zip(names, values.T, strict=True)},
        }
    keys = identifying(rows)
    if taken := keys.keys() & columns:
        raise ConfigError(f"the column {min(taken)!r} is called like a column of the predictions; rename it")
    described = {"predictor": predictor.info["id"], "fingerprint": rows.data.fingerprint}
    table = pa.table({**keys, **columns}).replace_schema_metadata({MARK: json.dumps(described)})
    tables.write(output, table, overwrite=overwrite)
    shown = {**counts(rows.data), "rows": len(table), "columns": table.column_names, "run": predictor.info["id"]}
    terminal.show({"output": public_name(output), **shown}, json_)
