"""The commands whose result is a page too, `audit`, `compare`, `drift` and `report`; and `tune`, beside `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from eventvec import attribution, auditing, comparing, models, part_names, reporting, shift, tables, tuning
from eventvec.auditing.audit_options import AuditOptions
from eventvec.cli import terminal
from eventvec.cli.application import Overwrite, RunFolder, command
from eventvec.cli.event_inputs import on_device, read_events
from eventvec.cli.parameters import (
    Device,
    EventsArgument,
    Full,
    Json,
    event_tables,
    given,
    split_names,
    takes,
    text_argument,
    text_option,
)
from eventvec.comparing.compare_options import CompareOptions
from eventvec.errors import ConfigError
from eventvec.evaluation.evaluation_options import EvaluationOptions, LabelOptions
from eventvec.options import those_of
from eventvec.shift.drift_options import DriftOptions
from eventvec.tables.read_options import Columns, Cuts, LabelTime, Storage, TableFormat
from eventvec.toml_tables import change
from eventvec.training.progress_bars import bar
from eventvec.tuning.tune_options import TuneOptions

DIFFERENT = 3
"""The exit code of `drift --fail` if the periods differ."""
PERIOD = "Events as for `fit`, or embeddings that `embed` wrote."
Page = Annotated[Path | None, typer.Option("--out", "-o", help="HTML page to write.")]
LabelTable = Annotated[str, text_argument(metavar="LABELS", help="Table with key and label.")]
Label = Annotated[str, typer.Option(help="Column to predict.")]
COLUMNS = (Columns, ("key", "time", "categorical", "numeric", "hashed", "summed", "texts"))
FORMAT = (TableFormat, ("time_format", "order", "ties", "explode"))


@command
@takes(AuditOptions)
def audit(
    run: RunFolder,
    events: EventsArgument,
    protected: Annotated[
        str | None, text_option(help="Table with the key and protected columns, such as the age.")
    ] = None,
    output: Page = None,
    overwrite: Overwrite = False,
    full: Full = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Show what the vectors of a run reveal about people: protected columns, links across files, who was trained on.

    Example: `eventvec audit run events.parquet --protected people.parquet --columns age,sex -o audit.html`
    """
    if output is not None:
        tables.check_output(output, [run, events, protected], overwrite=overwrite)
    trained = models.load(run)
    with bar("auditing") as tick:
        result = auditing.audit(trained, events, protected, progress=tick, **options)
    terminal.decide(result, json_, full, output, overwrite)


@command
@takes((Columns, (*COLUMNS[1], "known_at")), FORMAT, (Cuts, ("until",)), Storage, CompareOptions, LabelTime)
def compare(
    events: EventsArgument,
    labels: LabelTable,
    label: Label,
    out_: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the plan and the runs.")] = None,
    run: Annotated[
        list[Path] | None, typer.Option(help="Run folder to compare as it is, twice or more; nothing is trained.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--page", help="HTML page to write.")] = None,
    overwrite: Overwrite = False,
    full: Full = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Train several methods and encoders under one budget, score them in the same folds, and say which to use.

    Example: `eventvec compare events.parquet labels.parquet --key card --time when --label churn --out compared`

    Runs that exist: `eventvec compare events.parquet labels.parquet --label churn --run one --run other`
    """
    from eventvec.comparing.plans import check_plan_folder

    if output is not None:
        tables.check_output(output, [events, labels, out_, *(run or ())], overwrite=overwrite)
    reading = those_of(options, Columns, TableFormat, Cuts, Storage)
    reading.pop("inclusive", None)  # it is about labels here
    data: Any = events
    if run and reading:
        option = f"--{next(iter(reading)).replace('_', '-')}"
        raise ConfigError(
            f"{option} is given with --run, and each run reads the events by its own schema; leave it out"
        )
    if not run:
        if out_ is None:
            raise ConfigError("give --out, the folder for the plan and the runs; or --run twice or more")
        check_plan_folder(out_, "resume" in options, "comparison")
        with bar("reading"):
            data = tables.read(events, **reading)
    with bar("comparing") as tick:
        chosen = those_of(options, CompareOptions, LabelTime)
        result = comparing.compare(data, labels, label, out=out_, runs=run or None, progress=tick, **chosen)
    terminal.decide(result, json_, full, output, overwrite)


@command
@takes(COLUMNS, FORMAT, DriftOptions)
def drift(
    old: Annotated[str, typer.Argument(metavar="OLD", callback=event_tables, help=PERIOD)],
    new: Annotated[str, typer.Argument(metavar="NEW", callback=event_tables, help=PERIOD)],
    model: Annotated[str | None, text_option(help="Model folder: it reads and embeds the events.")] = None,
    output: Page = None,
    fail: Annotated[bool, typer.Option("--fail", help="Exit with code 3 if the periods differ.")] = False,
    device: Device = "auto",
    overwrite: Overwrite = False,
    full: Full = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Show whether two periods differ, column by column and in their embeddings, with a bounded rate of false alarms.

    Example: `eventvec drift march.parquet april.parquet --model model -o drift.html`

    Without a model, the columns alone: `eventvec drift march.parquet april.parquet --key card --time when`
    """
    if output is not None:
        tables.check_output(output, [old, new, model], overwrite=overwrite)
    trained = None if model is None else on_device(model, device)
    with bar("comparing") as tick:
        result = shift.drift(old, new, model=trained, progress=tick, **options)
    terminal.decide(result, json_, full, output, overwrite)
    if fail and result.facts["drift"]:
        raise typer.Exit(DIFFERENT)


@command
@takes(LabelOptions, (EvaluationOptions, ("task", "folds", "fractions", "seed", "models")), TableFormat)
def report(
    run: RunFolder,
    output: Annotated[Path, typer.Option("--out", "-o", help="HTML page to write.")],
    events: Annotated[
        str | None,
        typer.Argument(metavar="[EVENTS]", callback=event_tables, help="For what the data are and for histories."),
    ] = None,
    labels: Annotated[
        str | None, text_argument(metavar="[LABELS]", help="Table with the key; its columns colour the map.")
    ] = None,
    embeddings: Annotated[
        Path | None, typer.Option(help="Embeddings that `embed` wrote; made from the events if not given.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(help="Column of LABELS to evaluate; may be repeated.")] = None,
    title: Annotated[str | None, text_option(help="The title of the page.")] = None,
    map_seed: Annotated[
        int | None, typer.Option(help="Seed of the map and of the entities that are drawn as examples. Default: 0.")
    ] = None,
    drivers: Annotated[
        bool, typer.Option("--drivers", help="Show what drives the score of the first label; needs the events.")
    ] = False,
    device: Device = "auto",
    overwrite: Overwrite = False,
    full: Full = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Write a page about a run: its training, and with events and labels the data, results, a map and neighbours.

    Example: `eventvec report model events.parquet labels.parquet --label churn -o page.html`
    """
    tables.check_output(output, [run, events, embeddings, labels], overwrite=overwrite)
    trained = on_device(run, device)
    data = None if events is None else read_events(trained, events, those_of(options, TableFormat))
    driving = None
    if drivers:
        if data is None or labels is None or not label:
            raise ConfigError("--drivers needs the events and a label: EVENTS, LABELS and --label")
        with bar("leaving out") as tick:
            time = those_of(options, LabelTime)
            driving = attribution.influence(trained, data, labels, label[0], progress=tick, **time)
    z = None if embeddings is None else tables.read_embeddings(embeddings)
    chosen = {**given(title=title, map_seed=map_seed), **those_of(options, LabelOptions, EvaluationOptions)}
    with bar("reporting") as tick:
        result = reporting.report(
            trained, data, embeddings=z, labels=labels, label=label or (), drivers=driving, progress=tick, **chosen
        )
    result.write(output, overwrite=overwrite)
    shown = replace(result, verdict=(*result.verdict, f"the page: {output}"))
    terminal.answer({"output": str(output), **result.to_dict()}, shown.render(), json_)


@command
@takes((Columns, (*COLUMNS[1], "known_at")), TableFormat, (Cuts, ("until",)), TuneOptions, LabelTime)
def tune(
    events: EventsArgument,
    labels: LabelTable,
    label: Label,
    out_: Annotated[Path, typer.Option("--out", "-o", help="Folder for the plan and the runs.")],
    method: Annotated[str, typer.Option(help=f"One of: {', '.join(part_names.METHODS)}.")] = "coles",
    encoder: Annotated[str | None, typer.Option(help=f"One of: {', '.join(part_names.ENCODERS)}.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option(help="Values to try, encoder.dim=64,256; may be given several times.")
    ] = None,
    device: Device = "auto",
    full: Full = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Search for better settings than the defaults, and say whether it paid on entities that the search never saw.

    Example: `eventvec tune events.parquet labels.parquet --key card --time when --label churn --out tuned`
    """
    from eventvec.comparing.plans import check_plan_folder

    values = None if setting is None else _settings(setting)
    check_plan_folder(out_, "resume" in options, "search")
    defaults = {"holdout": TuneOptions.holdout, "seed": TuneOptions.seed}
    chosen = {**defaults, **those_of(options, TuneOptions, LabelTime)}
    reading = those_of(options, Columns, TableFormat, Cuts)
    reading.pop("inclusive", None)  # it is about labels here
    with bar("reading"):
        searched = tables.read(events, holdout=chosen["holdout"], holdout_seed=chosen["seed"], **reading)
        scored = those_of(reading, TableFormat, Cuts)
        data = tables.read(events, schema=searched.schema, **scored)  # of which the test entities are no part
    with bar("searching") as tick:
        result = tuning.tune(
            data, labels, label, out=out_, method=method, encoder=encoder, settings=values, device=device,
            progress=tick, **chosen,
        )  # fmt: skip
    terminal.decide(result, json_, full)


def _settings(texts: Sequence[str]) -> dict[str, Any]:
    """Return the values of each setting from texts such as `encoder.dim=64,256`; words need no quotes."""
    from eventvec.tuning.space import value_at

    values: dict[str, Any] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        if not listed or "." not in name:
            raise ConfigError(f"--setting {text!r} must be a setting and its values, such as encoder.dim=64,256")
        value = value_at(change({}, [f"{name}=[{listed}]"]), name.strip())
        values[name.strip()] = value if isinstance(value, list) else split_names(listed)
    return values
