"""The tables of two periods, read by one schema, and warnings about what makes periods differ by themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eventvec.dataset import Dataset, check_entities, period
from eventvec.errors import ConfigError, DataError
from eventvec.models import Model, check_model
from eventvec.options import option_types
from eventvec.schema import Schema
from eventvec.sequences import Sequences
from eventvec.tables import Embeddings, read, read_embeddings
from eventvec.tables.embeddings import holds_embeddings, never_seen
from eventvec.tables.event_tables import TABLE
from eventvec.tables.read_options import TableFormat
from eventvec.tables.sources import Tabular

UNEQUAL = 1.25
"""The ratio of the lengths of two periods from which a note warns of it."""
Period = Dataset | Embeddings | Tabular


def loaded(period: Period) -> Period:
    """Return a period, or the embeddings in its file or table if it has any."""
    is_path = isinstance(period, str | os.PathLike)
    return read_embeddings(period) if is_path and holds_embeddings(period) else period  # type: ignore[arg-type]


def coded(old: Any, new: Any, model: Model | None, options: Mapping[str, Any]) -> tuple[Dataset, Dataset]:
    """Return two tables of events as data sets of one schema."""
    if model is not None:
        check_model(model)
        for name in options:
            if name not in option_types(TableFormat):
                raise ConfigError(f"{name} does not apply with a model, whose schema names the columns; leave it out")
        before, after = model.read(old, **options), model.read(new, **options)
    elif isinstance(old, Dataset) and isinstance(new, Dataset):
        if options:
            raise ConfigError(f"{next(iter(options))} applies to tables, but the periods are data sets already")
        before, after = old, new
    elif isinstance(old, Dataset) or isinstance(new, Dataset):
        raise ConfigError("one period is a data set and the other a table; read both by one schema: read(..., schema=)")
    else:
        schema, notes = _common_schema(old, new, options)
        kept = {name: value for name, value in options.items() if name in {"meds", *option_types(TableFormat)}}
        before, after = read(old, schema=schema, **kept), read(new, schema=schema, **kept)
        before = replace(before, notes=notes)
    for data in (before, after):
        check_entities(data)
    if different := after.schema.difference(before.schema):
        raise DataError(
            f"the periods were read by different schemas, which differ in {different}; read the new one by that of the "
            "old: read(..., schema=old.schema)"
        )
    return before, after


def _common_schema(old: Any, new: Any, options: Mapping[str, Any]) -> tuple[Schema, tuple[str, ...]]:
    """Return a schema that is fitted to the tables of both periods together, and notes about their columns."""
    if isinstance(old, Mapping) or isinstance(new, Mapping):
        raise ConfigError("several tables of a period need a model= (--model), whose schema joins them")
    both = read({"old": old, "new": new}, **options)
    columns = tuple(field for field in both.schema.categorical if field.name != TABLE)
    return replace(both.schema, categorical=columns), both.notes


def held_out(old: Dataset, new: Dataset, model: Model | None) -> tuple[Dataset, Dataset]:
    """Return the entities of two periods that a model held out of its training."""
    if model is None:
        raise ConfigError("held_out needs a model= (--model), which held entities out of its training")
    first, second = (data[never_seen(data.keys, model.lineage.holdouts)] for data in (old, new))
    return first, second


def training_notes(old: Dataset, new: Dataset, model: Model | None) -> list[str]:
    """Return a warning if a period is what the model was trained on."""
    return [
        f"the {name} period is what the model was trained on: values that it left out as rare may be unknown more "
        "often in the other period, and its vectors may differ, without any shift; compare entities that training "
        "never saw, with held_out=True (--held-out), or two later periods"
        for name, data in (("old", old), ("new", new))
        if model and data.fingerprint == model.info["fingerprint"]
    ]


def span_notes(old: Sequences, new: Sequences, schema: Schema) -> list[str]:
    """Return a warning if one period is much longer than the other."""
    spans = [float(last - first) for first, last in filter(None, (period(old), period(new)))]
    if len(spans) < 2 or max(spans) <= UNEQUAL * min(spans):
        return []
    days = [f"{span / 86_400e6:.3g} days" if schema.clock else f"{span:.4g}" for span in spans]
    return [
        f"the old period spans {days[0]} and the new one {days[1]}: that alone changes the number of events per "
        "entity, and embeddings with it; give periods of equal length"
    ]
