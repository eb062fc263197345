"""`features`: hand-crafted features, and those of other encoders without training, as a table with named columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from eventvec.blocks.rows import Block
from eventvec.blocks.untrained import BLOCKS, HANDCRAFTED, WITHIN, EventBlock, usual_sizes
from eventvec.dataset import Dataset, last_time
from eventvec.embedding import Progress, embed
from eventvec.encoders.interface import Encoder, capabilities
from eventvec.errors import ConfigError, nearest, shown
from eventvec.files import path_only
from eventvec.models.model import Model, load
from eventvec.models.model_files import check_folder
from eventvec.models.run_start import identity
from eventvec.options import accepts, option_types
from eventvec.tables import Embeddings, read, times
from eventvec.tables.embeddings import check_names
from eventvec.tables.read_options import Columns, Cuts, Storage, TableFormat
from eventvec.tables.sources import Tabular


@accepts(Columns, TableFormat, Cuts, Storage)
def features(
    events: Dataset | Tabular,
    *,
    parts: Sequence[str] | None = None,
    model: Model | Path | str | None = None,
    save: Path | str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Embeddings:
    """Return features of each entity, in columns with names, as of a moment.

    The moment is that of `until` or of each row of `cutoffs`, and no event at or after it is read (with `inclusive`,
    those at it are). Without a cut, it is the time of the last event of the table.

    The result is what `embed` returns: `.frame()` is the table, `write` writes it, `evaluate` scores it. Its
    `metadata["notes"]` are sentences about what was counted or left out.

    Relations: The model that is written to `save` has the vocabularies, the names and what was fitted to the rows, so
    later tables have the same columns; `Model.embed`, `embed_shards` and `update` make tables by it. Of any other
    model, these are the features that its heads read, and the numbers of its vectors.

    Args:
        events: The events, as `read` takes them, or a data set that was read.
        parts: The blocks, one or several of handcrafted, lists, timing, aggregates, codes, convolutions and responses.
            By default, handcrafted, which has the features of aggregates and timing; of a model, those of its vectors
            if they have names, or all its blocks.
        model: A model, or its folder, such as that of an earlier call, which decides the columns.
        save: The folder of a model to write.
        progress: Called with the number of rows done and of all rows.
        options: The fields of the dataclasses in `tables.read_options`: `Columns` (key, time, categorical, numeric and
            others; none with `model`), `TableFormat` (time_format, order, ties, explode, key_as, decimal), `Cuts`
            (until, cutoffs, cutoff_column, inclusive) and `Storage` (store).

    Raises:
        ConfigError: If a part is not known or has the features of another one, options contradict one another, or the
            key is called like a feature.
        DataError: If the events cannot be used.
        CheckpointError: If `save` holds files already, or `model` cannot be loaded.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [1, 1, 2, 2], "day": [1, 2, 1, 5], "paid": [0.5, 1.0, 2.0, 3.0]})
        >>> plain = ev.Fitting(log=False)  # numbers as they are, not on a log scale
        >>> table = ev.features(events, key="card", time="day", numeric=["paid"], fitting=plain, until=5).frame()
        >>> table.columns[:3], table.select("card", "paid: max").rows()
        (['card', 'time: events', 'time: distinct'], [(1, 1.0), (2, 2.0)])
    """
    if model is None:
        chosen = _checked(parts)
        if save is not None:
            check_folder(path_only(save))
        data = _read(events, options)
        made = _made(data, chosen)
        check_names(data, made.of_blocks(()).names)
        made = made if save is None else made.save(save)
        encoder = made.of_blocks(())
    else:
        made = model if isinstance(model, Model) else load(model)
        _check_given(save, options)
        data = made.read(events, **options)
        vector = made.vector if all(isinstance(made.blocks[name], EventBlock) for name in made.vector) else ()
        encoder = made.of_blocks(_listed(parts) if parts is not None else vector)
    z = embed(encoder, data, progress=progress)
    return replace(z, metadata={**z.metadata, "notes": [*data.notes, *made.notes, *_moment_note(encoder, data)]})


def _checked(parts: Sequence[str] | None) -> list[str]:
    """Return the blocks in the order of `BLOCKS`, after a check."""
    chosen = [HANDCRAFTED] if parts is None else _listed(parts)
    for name in chosen:
        if name not in BLOCKS:
            raise ConfigError(f"there is no part {shown(name)}; {nearest(name, BLOCKS)}")
    for name, others in WITHIN.items():
        if name in chosen and (repeated := [other for other in others if other in chosen]):
            raise ConfigError(f"{name} has the features of {repeated[0]} already; leave {repeated[0]} out of parts")
    return [name for name in BLOCKS if name in chosen]


def _listed(parts: Sequence[str]) -> list[str]:
    """Return the names of blocks as a list, after a check."""
    if isinstance(parts, str) or not all(isinstance(name, str) for name in parts):
        raise ConfigError(f"parts must be a list of names, got {shown(parts)}; accepted: {', '.join(BLOCKS)}")
    if not parts:
        raise ConfigError(f"parts must name at least one of {', '.join(BLOCKS)}")
    return list(parts)


def _check_given(save: Path | str | None, options: dict[str, Any]) -> None:
    """Refuse what a model decides."""
    given = {"save": save, **{name: options.get(name) for name in option_types(Columns)}}
    if twice := [name for name, value in given.items() if value is not None and value is not False]:
        raise ConfigError(
            f"{twice[0]}= (--{twice[0].replace('_', '-')}) is given together with model= (--model), which has its "
            "columns and its folder; leave one of them out"
        )


def _read(events: Dataset | Tabular, options: dict[str, Any]) -> Dataset:
    if not isinstance(events, Dataset):
        return read(events, **options)
    if given := [name for name, value in options.items() if value is not None]:
        raise ConfigError(f"{given[0]} applies to a table, but the events are a data set already")
    return events


def _made(data: Dataset, parts: Sequence[str]) -> Model:
    """Return a model of features, whose blocks are fitted to the rows with events."""
    blocks, notes = dict[str, Block](), list[str]()
    x = data.sequences
    rows = x[x.lengths > 0]
    for name in parts:
        sizes, note = usual_sizes(name, data.schema)
        blocks[name] = EventBlock.of(name, data.schema, sizes, rows)
        notes += [note] if note else []
    info = identity(data, 0, parts)
    return Model(replace(data.schema, static=()), blocks, {**info, "finished": True}, tuple(parts), notes=tuple(notes))


def _moment_note(encoder: Encoder, data: Dataset) -> list[str]:
    """Return a note on the moment of prediction, if nobody named one and the features read it."""
    last = last_time(data.sequences)
    named = data.moments is not None or data.origin.until is not None
    if last is None or named or not capabilities(encoder).reads_moment:
        return []
    moment = times.to_arrow(data.schema, np.array([last]))[0]
    return [
        f"the features are as of {moment}, the time of the last event; for another moment give until= or cutoffs= "
        "(--until, --cutoffs)"
    ]
