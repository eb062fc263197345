"""What a model predicts for each entity, as a table with the keys: a label, or an observation at given places."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from eventvec.blocks.rows import Rows
from eventvec.dataset import Dataset
from eventvec.embedding import Progress, encode
from eventvec.encoders.interface import readable_rows
from eventvec.encoders.points import points_of
from eventvec.errors import ConfigError, DataError, shown
from eventvec.methods.cresp_targeted import TargetedMethod
from eventvec.models import Model, check_model
from eventvec.models.head import check_coverage, predictions_of
from eventvec.models.label_columns import label_columns, predicted_columns, prefixed
from eventvec.models.learned import LEARNED
from eventvec.options import accepts
from eventvec.predicting.grids import predictions
from eventvec.predicting.rows_to_predict import PredictionSources, identifying, rows_to_predict
from eventvec.sequences import Array
from eventvec.tables.frames import with_key
from eventvec.tables.other_data import check_data
from eventvec.tables.outputs import MARK
from eventvec.tables.prediction_places import Places, read_places
from eventvec.tables.read_options import Cuts, Storage, TableFormat
from eventvec.tables.sources import Tabular
from eventvec.tables.times import Instant


@accepts(Cuts, TableFormat, Storage)
def predict(
    model: Model,
    events: Dataset | Tabular | Sequence[Mapping[str, Any]] | None = None,
    *,
    state: Path | str | None = None,
    at: Tabular | None = None,
    static: Tabular | None = None,
    labels: Tabular | None = None,
    features: Mapping[str, Tabular] | None = None,
    coverage: float | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> pa.Table:
    """Return one row per entity: its key, `prediction`, and for classes the probability of each, `p_` before its name.

    The probabilities of heads are made likely on entities that their learners were not trained on; `explain` says how
    far they held on rows that chose nothing. Those of networks are calibrated by the temperature that `fit` found on
    the entities held out for validation, if there were enough; it changes no order of the classes of an entity.

    With a coverage, `low` and `high` are the ends of an interval around each number that a head predicts. Of the rows
    of new entities like those of the training, this share is inside; the interval is wider for entities whose label is
    harder to predict. `model.heads["spend"].intervals.measured` has the coverage that was measured in the training.

    If the model predicts several labels, the name of the label and `_` are before each of these names.

    A model of a targeted method predicts an observation at places: there is one row for each entity and place, with the
    key, the covariates, and `prediction`, the representation of the observation. A neural process gives the mean and
    the standard deviation of each column of the observation instead, `_mean` and `_std` after its name, in its unit.

    If the histories are cut at several times of an entity, there are rows for each time, which follows the key.

    Predictions are null for entities that a network cannot read, such as those with a missing value among points,
    which every value of needs; `fit` leaves these entities out. Heads predict entities without events too.

    An `EventvecWarning` says where the events are unlike those that the model learned from.

    The events need no labels. For the raw logits of a network, use ``embed(model.method.predictor, data)``.

    Args:
        model: A model that predicts labels, or one of a targeted method such as `cresp`.
        events: The events, as `Model.read` takes them; None with `state`.
        state: A store that `update` wrote: all its entities are predicted without their events, at the time `until`, or
            without one each as of its last event. Keys are texts then.
        at: For a targeted method, a table of places with the columns of the covariates, named as in the events, and
            with the key. Without the key, every entity is predicted at all places. `time_format` applies to it too.
        static: A table with the key and the static columns that the model reads beside the events, if it reads any.
        labels: For heads with `earlier_labels` from a table, the labels that are known so far.
        features: The tables of further features by name, for heads that learned from them.
        coverage: The share of new rows that should lie between `low` and `high`, such as .9, for heads that predict
            numbers; the probabilities of classes say by themselves how sure they are.
        progress: Called with the number of entities done and of all entities.
        options: As for `Model.read`. Formats of tables that are not given are those that the model learned from, if the
            command line or an estimator made it.

    Returns:
        The table; its metadata has the model's id, what the encoder was trained on, and the fingerprint of the events.

    Raises:
        ConfigError: If it is no model, it predicts no label and at no place, no head can promise the coverage, the
            places are missing or of no use, or the key has the name of a column of the result.
        DataError: If the events, the places or a table that is needed cannot be read, an entity has no event to predict
            from, or the encoder can read no entity.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> people = pl.DataFrame({"id": [1, 2], "age": [20.0, 60.0]})
        >>> data = ev.read(events, key="id", time="t", numeric=["v"], static=people, static_columns={"age": "numeric"})
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4)
        >>> model = ev.fit(data, method=ev.methods.Supervised(encoder, data.schema, "age"), epochs=1)
        >>> ev.predict(model, events).column_names
        ['id', 'prediction']

        At places, here the parameter b on the third day:

        >>> looks = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "what": ["a", "b"] * 2, "v": [0.5, 1, 2, 3]})
        >>> data = ev.read(looks, key="id", time="t", categorical=["what"], numeric=["v"], fitting=ev.Fitting(1))
        >>> events = {"covariates": ["time", "what"], "observations": ["v"]}
        >>> config = {"method": {"name": "cnp"}, "encoder": {"dim": 8, "events": events}}
        >>> model = ev.fit(data, method=config, epochs=1)
        >>> ev.predict(model, looks, at=pl.DataFrame({"t": [3], "what": ["b"]})).column_names
        ['id', 't', 'what', 'v_mean', 'v_std']
    """
    given: dict[str, Any] = {
        "at": at, "static": static, "labels": labels, "features": features, "coverage": coverage, "progress": progress,
    }  # fmt: skip
    if (events is None) == (state is None):
        raise ConfigError("give either events, or the store of states that has them: state= (--state)")
    if state is not None:
        return predicted_from(model, state, **given, **options)
    return predicted(model, events, **given, **options)[0]


def predicted_from(
    model: Model,
    state: Path | str,
    *,
    until: Instant | None = None,
    coverage: float | None = None,
    progress: Progress | None = None,
    **others: Any,
) -> pa.Table:
    """Return the predictions of all entities of a store, at a time or each as of its last event.

    Raises:
        ConfigError: If another option is given.
    """
    from eventvec.updating.stored_predictions import stored_predictions

    if given := next((name for name, value in others.items() if value is not None), None):
        raise ConfigError(f"{given} applies to events, and a store has them already; leave it out")
    return stored_predictions(model, state, until, progress, coverage)


def predicted(
    model: Model,
    events: Any,
    *,
    at: Tabular | None,
    static: Tabular | None,
    labels: Tabular | None,
    features: Mapping[str, Tabular] | None,
    coverage: float | None = None,
    progress: Progress | None,
    **options: Any,
) -> tuple[pa.Table, Rows]:
    """Return predictions, as `predict` does, and the rows that they are of."""
    check_model(model)
    check_coverage(model.id, model.heads, coverage)
    static = None if static is None else with_key(static)
    options |= {"cutoffs": with_key(cutoffs)} if (cutoffs := options.get("cutoffs")) is not None else {}
    if not isinstance(events, Dataset):
        options = {**model.info.get("reading", {}), **options}
    networks = model.declared.label_fields
    targeted = LEARNED in model.blocks and isinstance(model.method, TargetedMethod)
    if targeted and (at is not None or not model.heads):
        return _predict_at(model, events, at, progress, {**options, "static": static})
    if at is not None:
        raise ConfigError(f"the model {model.id} does not predict at places; leave out at= (--at)")
    if not (model.heads or networks):
        raise ConfigError(
            f"the model {model.id} predicts no label, because it has no head; train one: ev.fit with labels= (eventvec "
            "fit --labels), or the method supervised"
        )
    if not model.heads:
        if labels is not None or features:
            raise ConfigError("labels= and features= are for heads that read them; the model has none (fit --labels)")
        rows = Rows(model.read(events, static=static, **options))
    else:
        if isinstance(events, Dataset) and options:
            raise ConfigError(f"{next(iter(options))} applies to a table, but the events are a data set already")
        if options.pop("inclusive", None) not in (None, any(head.inclusive for head in model.heads.values())):
            raise ConfigError("the heads of the model read events by their own rule; leave out inclusive (--inclusive)")
        cuts = {name: options.pop(name) for name in ("until", "cutoffs", "cutoff_column") if name in options}
        rows = rows_to_predict(
            model, events, PredictionSources(**cuts, static=static, labels=labels, features=features), options
        )
    if networks:
        model.check_inputs(rows.data)
    check_data(rows.data, model.info.get("data", {}))
    columns = _network_columns(model, rows.data, progress) if networks else {}
    for name, values in predictions_of(model.blocks, model.heads, rows, coverage=coverage)[0].items():
        named = predicted_columns(model.heads[name].class_names, values)
        columns |= prefixed(name, named, several=len(model.heads) + len(networks) > 1, taken=columns)
    return keyed_table(model, rows, None, columns), rows


def _network_columns(model: Model, data: Dataset, progress: Progress | None) -> dict[str, pa.Array]:
    """Return the columns of the labels that the trained encoder's method learned."""
    predictor = model.declared.predictor
    assert predictor is not None
    known = _readable(model, data)
    rows = data.sequences[known.nonzero().squeeze(1)]
    return _with_nulls(label_columns(model, encode(predictor, rows, progress=progress)), known)


def _predict_at(
    model: Model, events: Dataset | Tabular, at: Tabular | None, progress: Progress | None, options: dict[str, Any]
) -> tuple[pa.Table, Rows]:
    points = points_of(model.method.encoder)
    names = [model.schema.time if name == "time" else name for name in points.covariates]
    if at is None:
        raise ConfigError(
            f"the method {type(model.method).__name__} predicts at places; give a table with the covariates "
            f"{', '.join(map(shown, names))}: at= (--at)"
        )
    data = model.read(events, **options)
    check_data(data, model.lineage.data)
    places = read_places(data, at, points.covariates, options.get("time_format"))
    known = _readable(model, data, places)
    values = {name: column[known] for name, column in places.values.items()}
    columns = predictions(model.method, data.sequences, Places(places.rows[known.numpy()], {}, values), progress)
    columns = _with_nulls(columns, known)
    if taken := places.columns.keys() & columns:
        raise ConfigError(
            f"the covariate {shown(min(taken))} is called like a column of the predictions; rename it in the events"
        )
    return keyed_table(model, Rows(data), places.rows, {**places.columns, **columns}), Rows(data)


def _readable(model: Model, data: Dataset, places: Places | None = None) -> Tensor:
    """Return bool: the rows that the encoder of a model can read, or the places in these rows."""
    known = readable_rows(model.method.encoder, data.sequences).cpu()
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


def keyed_table(model: Model, rows: Rows, index: Array | None, columns: Mapping[str, Any]) -> pa.Table:
    """Return a table of predictions with their keys, and with what the encoder was trained on in its metadata.

    Args:
        model: The model that predicts.
        rows: The rows that it predicts.
        index: The row of each prediction; None if there is one for each row.
        columns: The predictions.
    """
    identifiers = identifying(rows)
    if index is not None:
        identifiers = {name: column.take(pa.array(index)) for name, column in identifiers.items()}
    key = rows.data.schema.key_out
    if key in columns:
        raise ConfigError(
            f"the key is called {key!r}, like a column of the predictions; give it another name: key_as= (--key-as)"
        )
    if taken := identifiers.keys() & columns:
        raise ConfigError(
            f"the column of cutoffs is called {min(taken)!r}, like a column of the predictions; rename it in its table"
        )
    described = {**model.lineage.to_dict(), "run": model.id, "fingerprint": rows.data.fingerprint}
    return pa.table({**identifiers, **columns}).replace_schema_metadata({MARK: json.dumps(described)})
