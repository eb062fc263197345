"""What a run predicts for each entity, as a table with the keys: a label, or an observation at given places."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from eventvec.dataset import Dataset
from eventvec.embedding import Progress, encode
from eventvec.encoders.interface import readable_rows
from eventvec.encoders.points import points_of
from eventvec.errors import ConfigError, DataError, shown
from eventvec.methods.cresp_targeted import TargetedMethod
from eventvec.methods.declarations import declared
from eventvec.methods.label_losses import outputs_of
from eventvec.options import accepts
from eventvec.predicting.grids import predictions
from eventvec.runs import Run, check_run
from eventvec.schema import Categorical, Numeric
from eventvec.sequences import Array
from eventvec.tables.embeddings import row_columns
from eventvec.tables.other_data import check_data
from eventvec.tables.outputs import MARK
from eventvec.tables.prediction_places import Places, read_places
from eventvec.tables.read_options import Cuts, Storage, TableFormat
from eventvec.tables.sources import Tabular


@accepts(Cuts, TableFormat, Storage)
def predict(
    run: Run,
    events: Dataset | Tabular,
    *,
    at: Tabular | None = None,
    static: Tabular | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> pa.Table:
    """Return one row per entity: its key, `prediction`, and for classes the probability of each, `p_` before its name.

    The probabilities are calibrated: logits are divided by the temperature that `fit` found on the entities held out
    for validation, if there were enough. This changes no order of the classes of an entity.

    If the run learned several labels, the name of the label and `_` are before each of these names.

    A run of a targeted method predicts an observation at places: there is one row for each entity and place, with the
    key, the covariates, and `prediction`, the representation of the observation. A neural process gives the mean and
    the standard deviation of each column of the observation instead, `_mean` and `_std` after its name, in its unit.

    If the histories are cut at several times of an entity, there are rows for each time, which follows the key.

    Predictions are null for entities that the encoder cannot read, such as those with a missing value among points,
    which every value of needs; `fit` leaves these entities out.

    An `EventvecWarning` says where the events are unlike those that the run learned from.

    The events need no labels. For the raw logits, use ``embed(run.method.predictor, data)``.

    Args:
        run: A run that learned labels, by the method `supervised`, or a run of a targeted method such as `cresp`.
        events: The events, as `Run.read` takes them.
        at: For a targeted method, a table of places with the columns of the covariates, named as in the events, and
            with the key. Without the key, every entity is predicted at all places. `time_format` applies to it too.
        static: A table with the key and the static columns that the run reads beside the events, if it was trained with
            `static_inputs`.
        progress: Called with the number of entities done and of all entities.
        options: As for `Run.read`.

    Returns:
        The table; its metadata has the run's id, what the encoder was trained on, and the fingerprint of the events.

    Raises:
        ConfigError: If it is no run, its method predicts no label and at no place, the places are missing or of no use,
            or the key has the name of a column of the result.
        DataError: If the events or the places cannot be read, an entity has no event to predict from, or the encoder
            can read no entity.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> people = pl.DataFrame({"id": [1, 2], "age": [20.0, 60.0]})
        >>> data = ev.read(events, key="id", time="t", numeric=["v"], static=people, static_columns={"age": "numeric"})
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4)
        >>> run = ev.fit(ev.methods.Supervised(encoder, data.schema, "age"), data, epochs=1)
        >>> ev.predict(run, events).column_names
        ['id', 'prediction']

        At places, here the parameter b on the third day:

        >>> looks = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "what": ["a", "b"] * 2, "v": [0.5, 1, 2, 3]})
        >>> data = ev.read(looks, key="id", time="t", categorical=["what"], numeric=["v"], fitting=ev.Fitting(1))
        >>> events = {"covariates": ["time", "what"], "observations": ["v"]}
        >>> config = {"method": {"name": "cnp"}, "encoder": {"dim": 8, "events": events}}
        >>> run = ev.fit(config, data, epochs=1)
        >>> ev.predict(run, looks, at=pl.DataFrame({"t": [3], "what": ["b"]})).column_names
        ['id', 't', 'what', 'v_mean', 'v_std']
    """
    check_run(run)
    if isinstance(run.method, TargetedMethod):
        return _predict_at(run, events, at, progress, {**options, "static": static})
    if at is not None:
        raise ConfigError(f"the method {type(run.method).__name__} does not predict at places; leave out at= (--at)")
    told = declared(run.method)
    targets, predictor = told.label_fields, told.predictor
    if not targets or predictor is None:
        raise ConfigError(
            f"the method {type(run.method).__name__} predicts no label; fit a run with the method supervised"
        )
    data = run.read(events, static=static, **options)
    run.check_inputs(data)
    check_data(data, run.lineage.data)
    known = _readable(run, data)
    rows = data.sequences[known.nonzero().squeeze(1)]
    columns = label_columns(run, encode(predictor, rows, progress=progress))
    return keyed_table(run, data, None, _with_nulls(columns, known))


def label_columns(run: Run, outputs: Tensor) -> dict[str, pa.Array]:
    """Return the columns of the predictions of labels, from `(n, k)` what the predictor of a run returns."""
    targets = declared(run.method).label_fields
    columns: dict[str, pa.Array] = {}
    for target, output in zip(targets, outputs.split([outputs_of(each) for each in targets], 1), strict=True):
        prefix = "" if len(targets) == 1 else f"{target.name}_"
        output = output / run.info.get("temperatures", {}).get(target.name, 1.0)
        predicted = _value(output) if isinstance(target, Numeric) else _classes(target, output)
        named = {f"{prefix}{name}": column for name, column in predicted.items()}
        if taken := named.keys() & columns:
            raise ConfigError(f"two labels have predictions of the name {min(taken)!r}; rename a label and train again")
        columns |= named
    return columns


def _predict_at(
    run: Run, events: Dataset | Tabular, at: Tabular | None, progress: Progress | None, options: dict[str, Any]
) -> pa.Table:
    points = points_of(run.method.encoder)
    names = [run.schema.time if name == "time" else name for name in points.covariates]
    if at is None:
        raise ConfigError(
            f"the method {type(run.method).__name__} predicts at places; give a table with the covariates "
            f"{', '.join(map(shown, names))}: at= (--at)"
        )
    data = run.read(events, **options)
    check_data(data, run.lineage.data)
    places = read_places(data, at, points.covariates, options.get("time_format"))
    known = _readable(run, data, places)
    values = {name: column[known] for name, column in places.values.items()}
    columns = predictions(run.method, data.sequences, Places(places.rows[known.numpy()], {}, values), progress)
    columns = _with_nulls(columns, known)
    if taken := places.columns.keys() & columns:
        raise ConfigError(
            f"the covariate {shown(min(taken))} is called like a column of the predictions; rename it in the events"
        )
    return keyed_table(run, data, places.rows, {**places.columns, **columns})


def _readable(run: Run, data: Dataset, places: Places | None = None) -> Tensor:
    """Return bool: the rows that the encoder of a run can read, or the places in these rows."""
    known = readable_rows(run.method.encoder, data.sequences).cpu()
    if places is not None:
        known = known[torch.from_numpy(places.rows)]
    if len(known) and not known.any():
        raise DataError(
            f"the encoder can read none of the {len(known):,} rows to predict: a value that it needs is missing in "
            "each; fill in the values, or leave out the events that lack them"
        )
    return known


def _with_nulls(columns: Mapping[str, pa.Array], known: Tensor) -> dict[str, pa.Array]:
    """Return columns of predictions for the rows that are known, with nulls for the others."""
    places = pa.array((known.cumsum(0) - 1).numpy(), mask=(~known).numpy())
    return {name: column.take(places) for name, column in columns.items()}


def keyed_table(run: Run, data: Dataset, index: Array | None, columns: Mapping[str, Any]) -> pa.Table:
    """Return a table of predictions with their keys, and with what the encoder was trained on in its metadata.

    Args:
        run: The run that predicts.
        data: The entities.
        index: The row of the data of each prediction; None if there is one for each row.
        columns: The predictions.
    """
    rows = row_columns(data.keys, data.schema, data.moments, data.origin.options)
    if index is not None:
        rows = {name: column.take(pa.array(index)) for name, column in rows.items()}
    key = data.schema.key_out
    if key in columns:
        raise ConfigError(
            f"the key is called {key!r}, like a column of the predictions; give it another name: key_as= (--key-as)"
        )
    if taken := rows.keys() & columns:
        raise ConfigError(
            f"the column of cutoffs is called {min(taken)!r}, like a column of the predictions; rename it in its table"
        )
    described = {**run.lineage.to_dict(), "fingerprint": data.fingerprint}
    return pa.table({**rows, **columns}).replace_schema_metadata({MARK: json.dumps(described)})


def _value(outputs: Tensor) -> dict[str, pa.Array]:
    return {"prediction": pa.array(outputs.squeeze(1).numpy())}


def _classes(target: Categorical, logits: Tensor) -> dict[str, pa.Array]:
    probabilities = logits.softmax(1)
    likeliest = pa.array(target.values, pa.string()).take(pa.array(probabilities.argmax(1).numpy()))
    columns = zip(target.values, probabilities.T, strict=True)
    return {"prediction": likeliest, **{f"p_{value}": pa.array(column.numpy()) for value, column in columns}}
