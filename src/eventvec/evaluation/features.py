"""Hand-crafted features of a data set, as of the moment of prediction of each entity."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from eventvec.dataset import Dataset, check_dataset, last_time, last_times
from eventvec.embedding import encode
from eventvec.encoders.aggregates import Aggregates
from eventvec.encoders.handcrafted import MOMENT, Handcrafted
from eventvec.errors import ConfigError, DataError, refuse_masked, shown
from eventvec.schema import Schema
from eventvec.sequences import Array
from eventvec.tables.times import Instant, instant

MOST = 1000
"""The largest number of hand-crafted features that an evaluation computes, if the number of columns allows it."""
SIZES = (
    (200, 50), (100, 50), (100, 20), (50, 20), (50, 10), (20, 10), (20, 5), (10, 5), (10, 2), (10, 0), (5, 0), (2, 0),
    (1, 0), (0, 0),
)  # fmt: skip
"""The numbers of values of a categorical column with counts, and among them with statistics of the numbers within; the
first pair is taken that allows it."""


def handcrafted_features(
    data: Dataset, moment: Instant | Tensor | Array | None = None
) -> tuple[Array, tuple[str, ...]]:
    """Return at most `MOST` hand-crafted features of each entity, `(n, dim)`, and their names; see `Handcrafted`."""
    encoder, _ = bounded(Handcrafted, data.schema)
    return encode(encoder, with_moment(data, moment).sequences).numpy(), encoder.names


def bounded(kind: type[Aggregates] | type[Handcrafted], schema: Schema) -> tuple[Aggregates | Handcrafted, str]:
    """Return an encoder of at most `MOST` features, if the schema allows it, and a note if values were left out.

    Of each categorical column, the most frequent values have features; no label says which.
    """
    whole = encoder = kind(schema)
    for values, within in SIZES:
        if encoder.dim <= MOST:
            break
        encoder = Aggregates(schema, values) if kind is Aggregates else Handcrafted(schema, None, values, within=within)
    if encoder is whole:
        return encoder, ""
    inner = f", and those of numbers within values of {encoder.within}" if isinstance(encoder, Handcrafted) else ""
    return encoder, (
        f"{kind.__name__} features are of the {encoder.values} most frequent values of each categorical column{inner}: "
        f"{encoder.dim:,} instead of {whole.dim:,}."
    )


def feature_texts(schema: Schema, encoder: Aggregates | Handcrafted) -> list[str]:
    """Return the name of each feature, with the column of the events that it is of, see `feature_columns`."""
    columns = feature_columns(schema, encoder.names)
    return [
        f"{shown(name)} of the column {shown(column)}" if column else shown(name)
        for name, column in zip(encoder.names, columns, strict=True)
    ]


def feature_columns(schema: Schema, names: Iterable[str]) -> list[str]:
    """Return the column of the events that each feature is of, and an empty text for a feature of none.

    The column is the longest one with which the name begins; features of several columns begin with the first.
    """
    fields = [column.name for kind in (schema.numeric, schema.categorical, schema.bags) for column in kind]
    columns = dict(zip(fields, fields, strict=True)) | {"time": schema.time, "gap": schema.time}

    def column(name: str) -> str:
        beginnings = (name[: end.start()] for end in re.finditer(": |=| where ", name))
        known = [each for each in beginnings if each in columns]  # from the shortest to the longest
        return columns[known[-1]] if known else ""

    return [column(name) for name in names]


def with_moment(data: Dataset, moment: Instant | Tensor | Array | None = None) -> Dataset:
    """Return the data with each entity's moment of prediction as a static value, from which hand-crafted features read.

    The moment is one time for all entities, or `(n,)` numbers in the unit of the column `time`. By default, it is the
    time at which the events were cut: `until`, each entity's cutoff, or the earlier of the two. Without a cut, it is
    the last event of the data, which must then be a whole table.
    """
    check_dataset(data)
    x = data.sequences
    if moment is None:
        moments = _recorded(data)
    elif isinstance(moment, Tensor | np.ndarray):
        moments = _listed(data, moment)
    else:
        moments = _one(data, instant(data.schema, moment))
    moments = moments.to(x.device)
    if later := int(((last_times(x) > moments) & (x.lengths > 0)).sum()):
        raise DataError(
            f"{later:,} of {len(data):,} entities have events after the moment of prediction; "
            "cut their histories there, with until= or cutoffs="
        )
    return replace(data, sequences=replace(x, static={**x.static, MOMENT: moments}))


def _recorded(data: Dataset) -> Tensor:
    """Return `(n,)` the times at which the data were cut, or the time of the last event."""
    cuts = [] if data.moments is None else [torch.from_numpy(data.moments)]
    if data.origin.until is not None:
        cuts.append(_one(data, instant(data.schema, data.origin.until)))
    if cuts:
        return torch.stack(cuts).amin(0)
    return _one(data, last_time(data.sequences) or 0)


def _one(data: Dataset, moment: float) -> Tensor:
    kind = torch.float64 if data.schema.time_kind == "float" else torch.int64
    return torch.full((len(data),), moment, dtype=kind)


def _listed(data: Dataset, moments: Tensor | Array) -> Tensor:
    """Return one moment for each entity, which a caller gave."""
    refuse_masked(moments, "the moments of prediction")
    listed = moments.cpu().numpy() if isinstance(moments, Tensor) else moments
    if listed.shape != (len(data),) or listed.dtype.kind not in "iuf":
        raise ConfigError(
            f"the moments of prediction must be {len(data)} numbers in the unit of the times, one for each entity, "
            f"got {listed.dtype} of shape {listed.shape}"
        )
    if not np.isfinite(listed).all():
        raise ConfigError(f"the moments of prediction must be finite, got {listed[~np.isfinite(listed)][0]}")
    integers = listed.dtype.kind != "f" and data.schema.time_kind != "float"
    return torch.from_numpy(listed.astype(np.int64 if integers else np.float64))
