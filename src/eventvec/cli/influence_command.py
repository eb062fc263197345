"""The command `influence`: what drives a score, a prediction or the vectors of a run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from eventvec import attribution, runs
from eventvec.attribution import InfluenceOptions
from eventvec.cli import terminal
from eventvec.cli.application import RunFolder, command
from eventvec.cli.parameters import Device, EventsArgument, Json, not_empty, takes
from eventvec.embedding import choose_device
from eventvec.tables.read_options import Cuts, TableFormat
from eventvec.training.progress_bars import bar


@command
@takes(InfluenceOptions, Cuts, TableFormat)
def influence(
    run: RunFolder,
    events: EventsArgument,
    labels: Annotated[
        str | None, typer.Argument(metavar="LABELS", callback=not_empty, help="Table with the key and the label.")
    ] = None,
    label: Annotated[str | None, typer.Option(callback=not_empty, help="Column to predict.")] = None,
    entity: Annotated[
        str | None, typer.Option(metavar="KEY", callback=not_empty, help="Measure this entity alone.")
    ] = None,
    device: Device = "auto",
    json_: Json = False,
    **options: Any,
) -> None:
    """Show what drives a vector: the change of a score when a field or a period of the events is left out.

    Example: `eventvec influence run events.parquet labels.parquet --label churn`

    Without labels, it shows how far the vectors move: `eventvec influence run events.parquet`
    """
    place = choose_device(device)
    trained = runs.load(run)
    trained.encoder.to(place)
    measured = vars(InfluenceOptions())
    reading = {name: value for name, value in options.items() if name not in measured}
    if "cutoffs" in reading and "inclusive" in options:
        reading["inclusive"] = True
    with bar("reading"):
        data = trained.read(events, **reading)
    terminal.notes(data.notes)
    measuring = {name: value for name, value in options.items() if name in measured}
    with bar("embedding") as tick:
        result = attribution.influence(trained, data, labels, label, entity=entity, progress=tick, **measuring)
    terminal.answer(result.to_dict(), result.render(), json_)
