"""The command that makes labels of what follows."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from eventvec import tables
from eventvec.cli import terminal
from eventvec.cli.application import Output, Overwrite, command
from eventvec.cli.parameters import EventsArgument, Json, not_empty, takes
from eventvec.labels.future_options import FutureOptions
from eventvec.options import option_types
from eventvec.tables.addresses import name_of
from eventvec.tables.read_options import Columns, Storage, TableFormat
from eventvec.training.progress_bars import bar


@command
@takes(
    (Columns, ("key", "time")),
    (TableFormat, ("time_format", "explode", "key_as")),
    Storage,
    (FutureOptions, ("gap", "label", "observed_until", "zone", "name")),
)
def labels(
    events: EventsArgument,
    output: Output,
    every: Annotated[
        str, typer.Option(callback=not_empty, help="The distance of the times of the labels: 1mo, 1w, 1d, or a number.")
    ],
    horizon: Annotated[
        str, typer.Option(callback=not_empty, help="The length of time that a label describes, such as 90d or 1mo.")
    ],
    where: Annotated[
        list[str] | None,
        typer.Option(help="Which events count: shop=tea or 'paid>100'; may be given several times. All by default."),
    ] = None,
    overwrite: Overwrite = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Write labels that say what follows times of the calendar, for the entities that were observed until then.

    Example: `eventvec labels events.parquet --key card --time when --every 1mo --horizon 90d -o labels.parquet`

    What each card spends on tea in a month: `eventvec labels events.parquet --key card --time when --every 1mo
    --horizon 1mo --label sum:paid --where shop=tea -o labels.parquet`
    """
    from eventvec.labels.conditions import split_conditions
    from eventvec.labels.horizons import future_labels
    from eventvec.tables.outputs import MARK

    tables.check_output(output, [events], overwrite=overwrite)
    conditions = split_conditions(where or ())
    compared = [name for name, values in conditions.items() if any(value[0] in "<>" for value in values)]
    numeric = {*compared, options.get("label", "").partition(":")[2]} - {""}
    chosen = {name: options.pop(name) for name in list(options) if name in option_types(FutureOptions)}
    with bar("reading"):
        data = tables.read(
            events,
            categorical=[name for name in conditions if name not in numeric],
            numeric=sorted(numeric),
            fitting=tables.Fitting(min_count=1, max_values=2**31),
            **options,
        )
    terminal.notes(data.notes)
    table = future_labels(data, every=every, horizon=horizon, where=conditions, **chosen)
    described = json.loads(table.schema.metadata[MARK])
    terminal.notes(described["notes"])
    tables.write(output, table, overwrite=overwrite)
    counted = {"rows": len(table), "censored": described["censored"], "columns": table.column_names}
    terminal.show({"output": name_of(output), **counted}, json_)
