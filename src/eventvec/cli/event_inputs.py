"""The events that the commands read: those of a `[data]` table, and those that a run is to score."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventvec import models, tables
from eventvec.cli import terminal
from eventvec.errors import ConfigError, nearest
from eventvec.options import option_types, those_of
from eventvec.schema import Schema
from eventvec.tables.read_options import GROUPS, Fitting, StaticColumns
from eventvec.training.progress_bars import bar

if TYPE_CHECKING:
    from eventvec.dataset import Dataset
    from eventvec.tables import Embeddings


def to_learn(table: Mapping[str, Any], seed: int, schema: Schema | None) -> Dataset:
    """Return the events of a `[data]` table, whose options are checked against their types.

    Args:
        seed: The seed of the hold-out set if the table has none.
        schema: The schema of the run whose encoder is trained further. Static columns that it lacks are fitted here.
    """
    from eventvec import config

    known = {"path", *(name for group in GROUPS for name in option_types(group))}
    for name in table:
        if name not in known:
            raise ConfigError(f"data has no option {name!r}; {nearest(name, known)}")
    path: str | dict[str, str] = config.check(table["path"], str | dict[str, str], "data.path")
    options: dict[str, Any] = {"holdout_seed": seed}
    for group in GROUPS:
        options |= config.options(those_of(table, group), group, {}, "data")
    if schema is None:
        return tables.read(path, **options)
    static = StaticColumns(**{name: options.pop(name, None) for name in option_types(StaticColumns)})
    fitting = options.pop("fitting", Fitting())
    data = tables.read(path, schema=schema, **options)
    if static.static is None:
        return data
    return tables.attach(data, static.static, static.static_columns, fitting=fitting)


def counts(data: Dataset | Embeddings) -> dict[str, int]:
    """Return the number of entities, and of rows if entities have several, cut at several times."""
    from eventvec.dataset import repeated

    entities = len(data) - (0 if data.moments is None else repeated(data.keys))
    return {"entities": entities} if entities == len(data) else {"entities": entities, "rows": len(data)}


def to_score(
    run: Path, events: str, output: str, overwrite: bool, device: str, options: Mapping[str, Any]
) -> tuple[models.Model, Dataset]:
    """Return a run on a device, and the events to score, after the place to write was checked."""
    tables.check_output(output, [run, events, options.get("cutoffs")], overwrite=overwrite)
    trained = on_device(run, device)
    return trained, read_events(trained, events, options)


def on_device(run: Path | str, device: str) -> models.Model:
    """Return a run on a device; a device that is not there is refused first."""
    from eventvec.embedding import choose_device

    place = choose_device(device)
    return models.load(run).to(place)


def read_events(run: models.Model, events: str, options: Mapping[str, Any]) -> Dataset:
    """Return events, read by the schema of a run, and show their notes."""
    with bar("reading"):
        data = run.read(events, **options)
    terminal.notes(data.notes)
    return data
