"""What `fit --labels` does: a model with a head for a label, without a trained network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eventvec.cli import terminal
from eventvec.errors import ConfigError
from eventvec.learners.task import target
from eventvec.options import option_types, those_of
from eventvec.tables.label_times import refuse_empty
from eventvec.tables.read_options import GROUPS, StaticColumns
from eventvec.tables.sources import read_table


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
    from eventvec.models.model_files import check_folder
    from eventvec.predicting.event_estimators import EventClassifier, EventRegressor

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
    check_folder(out)
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
    (head,) = model.model_.heads.values()
    facts = {"run": str(out), "blocks": [*model.model_.blocks, *head.blocks]}
    terminal.answer({**answer.to_dict(), **facts}, answer.render(), json_)
