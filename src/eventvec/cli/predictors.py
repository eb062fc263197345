"""What `fit --labels` does: a model with a head for each label."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from eventvec import models
from eventvec.cli import terminal
from eventvec.errors import ConfigError
from eventvec.options import option_types, those_of
from eventvec.tables.read_options import GROUPS, LabelTime, StaticColumns, TableFormat
from eventvec.torchrun import launched
from eventvec.training.head_options import HeadOptions
from eventvec.training.progress_bars import bar


def fit_labels(
    events: Any,
    labels: str | None,
    names: Sequence[str],
    base: str | None,
    out: Path | None,
    options: Mapping[str, Any],
    heads: HeadOptions,
    dry_run: bool,
    json_: bool,
) -> None:
    """Learn to predict the columns `names` of labels, write the folder, and show what the model is worth.

    `base` is the folder of a model that gets further heads, and `options` are all options of the command `fit`.
    """
    from eventvec.answers.printing import table
    from eventvec.models.model_files import check_folder
    from eventvec.predicting.predictor_answer import explained
    from eventvec.training.label_models import learn_labels, plan_labels
    from eventvec.training.labelled_rows import LabelSources, read_for_labels

    if labels is None or not names:
        raise ConfigError("give --labels TABLE and --label COLUMN together: the table of labels, and what to predict")
    if cut := next((name for name in ("cutoffs", "cutoff_column") if options.get(name) is not None), None):
        raise ConfigError(
            f"--{cut.replace('_', '-')} is given with --labels; labels have times of their own: --label-time COLUMN"
        )
    used = {name for group in GROUPS for name in option_types(group)} | {"label_time", "time_budget", "seed", "latest"}
    if unused := [name for name, value in options.items() if name not in used and value is not None]:
        raise ConfigError(
            f"--{unused[0].replace('_', '-')} is of networks, and --labels trains none; to train one on labels: "
            "--static TABLE --method supervised --set method.label=COLUMN"
        )
    if launched() and heads.network:
        raise ConfigError("torchrun trains one network in several processes, and --network several; run fit without it")
    if launched() and int(os.environ.get("RANK", "0")):
        return  # blocks and heads are fitted by the first process
    if events is None:
        raise ConfigError("name the events to learn from: --events FILE --key COLUMN --time COLUMN")
    if out is None and not dry_run:
        raise ConfigError("name the folder to write: --out FOLDER")
    if out is not None:
        check_folder(out)
    reading = those_of(options, *GROUPS)
    static = {name: reading.pop(name, None) for name in option_types(StaticColumns)}["static"]
    times = LabelTime(options.get("label_time"), bool(reading.pop("inclusive", False)))
    model = None if base is None else models.load(base)
    if model is not None and (columns := [name for name in reading if name not in option_types(TableFormat)]):
        raise ConfigError(f"--{columns[0].replace('_', '-')} is given with --from, whose schema reads the events")

    def read(**cuts: Any) -> Any:
        return read_for_labels(events, reading, model, **cuts)

    asked = LabelSources(labels, tuple(names), None, read, times, heads, static=static, base=model)
    if dry_run:
        with bar("planning"):
            learned, learners, facts = plan_labels(asked)
        facts = {"learners": learners, **facts, "notes": list(learned.notes)}
        text = (
            f"{facts['rows']:,} rows; about {facts['seconds']:,.0f} s and {facts['memory_gb']:g} GB on this machine, "
            "from trials on a part of the rows."
        )
        terminal.plan(learned.rows.data, facts, text, json_, table(learners))
        return
    with bar("training") as tick:
        trained = learn_labels(asked, tick)
    if formats := those_of(reading, TableFormat):  # in which predictions read tables too
        trained = replace(trained, info={**trained.info, "reading": formats})
    trained = models.Model.save(trained, out)  # type: ignore[arg-type]
    answers = {name: explained(trained.heads[name]) for name in names}
    terminal.notes(dict.fromkeys(note for answer in answers.values() for note in answer.notes))
    of_labels = [name for head in trained.heads.values() for name in head.blocks]
    written = {"run": str(out), "blocks": list(dict.fromkeys([*trained.blocks, *of_labels]))}
    if len(answers) == 1:
        (answer,) = answers.values()
        terminal.answer({**answer.to_dict(), **written}, answer.render(), json_)
    elif json_:
        typer.echo(json.dumps({"labels": {name: each.to_dict() for name, each in answers.items()}, **written}))
    else:
        for answer in answers.values():
            terminal.out.print(answer.render())
