"""The command `tune`: a search for settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from eventvec import part_names, tables, tuning
from eventvec.cli import terminal
from eventvec.cli.application import command
from eventvec.cli.page_commands import COLUMNS
from eventvec.cli.parameters import Device, EventsArgument, Full, Json, not_empty, split_names, takes
from eventvec.errors import ConfigError
from eventvec.options import those_of
from eventvec.tables.read_options import Columns, Cuts, LabelTime, TableFormat
from eventvec.toml_tables import change
from eventvec.training.progress_bars import bar
from eventvec.tuning.tune_options import TuneOptions


@command
@takes(
    (Columns, (*COLUMNS[1], "known_at")),
    TableFormat,
    (Cuts, ("until",)),
    TuneOptions,
    LabelTime,
)
def tune(
    events: EventsArgument,
    labels: Annotated[str, typer.Argument(metavar="LABELS", callback=not_empty, help="Table with key and label.")],
    label: Annotated[str, typer.Option(help="Column to predict.")],
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
