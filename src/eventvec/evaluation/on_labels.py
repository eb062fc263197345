"""`evaluate`: how well embeddings predict a table of labels, beside hand-crafted aggregates of the same events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from eventvec.dataset import Dataset
from eventvec.embedding import encode
from eventvec.encoders.aggregates import Aggregates
from eventvec.encoders.handcrafted import Handcrafted
from eventvec.errors import ConfigError, DataError, nearest, shown
from eventvec.evaluation.baselines import baselines
from eventvec.evaluation.labels import join_labels
from eventvec.evaluation.leaks import label_times, refuse_later_events, same_events
from eventvec.evaluation.metrics import Array
from eventvec.evaluation.result import Evaluation
from eventvec.evaluation.scoring import TOGETHER, EvaluationOptions, score_features
from eventvec.features import with_moment
from eventvec.options import accepts, gather
from eventvec.tables import Embeddings, read, read_table, times
from eventvec.tables import until as cut
from eventvec.tables.keys import align
from eventvec.tables.sources import Tabular


@dataclass(frozen=True)
class LabelOptions:
    """How a table of labels is joined to embeddings, and which embeddings are tested.

    Args:
        key: The name of the key in the table of labels, if it differs.
        group: A column of the table of labels. Entities of one group are never split, for example a household's.
        label_time: A column of the table of labels with the time of each label. Only earlier events may be used.
        until: A time for all labels. Only earlier events may be used.
        holdout: Test on the entities that the encoder never saw, see `score_features`.
    """

    key: str | None = None
    group: str | None = None
    label_time: str | None = None
    until: times.Instant | None = None
    holdout: bool = False


@accepts(LabelOptions, EvaluationOptions)
def evaluate(
    z: Embeddings,
    data: Dataset | Tabular | None,
    labels: Tabular,
    label: str,
    *,
    features: Mapping[str, Tabular] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Evaluation:
    """Return how well embeddings predict a label, beside hand-crafted features of the same events, in the same folds.

    The opponents are `aggregates` (Babaev et al. 2022), `handcrafted`, which has timing as of the moment of prediction
    too, and the caller's `features`. The moment of prediction is the time of the label, or `until`, or the last event
    of the data. Two baselines need no training: `event_count`, and `untrained`, the mean of an event encoder with
    random weights.

    Labels are joined by key, and every row that does not fit is counted. Embeddings that were made from events at or
    after the time of their label are refused.

    Relations: `score_features` does the same for features and labels that are aligned already.

    Args:
        z: The embeddings, from `embed`, `update` or `read_embeddings`.
        data: The events that were embedded, read by the same schema; without them, there are no hand-crafted features
            and no baselines.
        labels: A table with the key and the label, as `read` takes tables.
        label: The column to predict.
        features: Tables of further features by name, each with the key and one row per entity; all other columns must
            be numbers. Every labelled entity needs a row, and missing numbers are an error.
        progress: Called with the number of models that are done and of all models.
        options: The fields of `EvaluationOptions` (task, folds, fractions, seed, models, num_threads).

    Raises:
        DataError: If a column is absent, no key matches, an embedding was made from later events, the data are not
            those that were embedded, or the labels cannot be used.
        ConfigError: If an argument has another type, an option is out of range, or `holdout` is true and the runs held
            no entities out.

    Example:
        >>> import numpy as np
        >>> import polars as pl
        >>> import eventvec as ev
        >>> rng = np.random.default_rng(0)
        >>> events = pl.DataFrame({"card": np.arange(400) % 80, "day": np.arange(400), "paid": rng.random(400)})
        >>> labels = pl.DataFrame({"card": range(80), "churn": rng.random(80) < 0.4})
        >>> data = ev.read(events, key="card", time="day", numeric=["paid"])
        >>> z = ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4), data)
        >>> result = ev.evaluate(z, data, labels, "churn", models=["logistic_regression"])
        >>> result.frame()["features"].to_list()
        ['embedding', 'aggregates', 'handcrafted', 'event_count', 'untrained', 'both', 'embedding_handcrafted']
    """
    chosen = gather(options, LabelOptions, EvaluationOptions)
    if not isinstance(z, Embeddings):
        raise ConfigError(
            f"z must be Embeddings, got {type(z).__name__}; take those of embed, or read them: "
            "z = ev.read_embeddings(path)"
        )
    if not isinstance(label, str):
        raise ConfigError(f"label must be the name of a column, got {shown(label)}")
    key = chosen.key or z.schema.key_out
    used = [name for name in dict.fromkeys((key, label, chosen.group, chosen.label_time)) if name is not None]
    joined = join_labels(
        z.keys,
        z.schema.key_out,
        read_table(labels, used, "the label table"),
        label,
        table_key=chosen.key,
        group=chosen.group,
        time=chosen.label_time,
    )
    labelled = z[joined.positions]
    cutoffs = None if joined.times is None else label_times(z.schema, joined.times)
    refuse_later_events(labelled, chosen.until, None if cutoffs is None else (str(chosen.label_time), cutoffs))
    sets, notes = {"embedding": labelled.values}, tuple[str, ...]()
    if data is not None:
        data = data if isinstance(data, Dataset) else read(data, schema=z.schema)
        time = z.metadata.get("until") if chosen.until is None else chosen.until
        if time is not None and data.origin.until != time:
            data = cut(data, time)
        if cutoffs is None and data.fingerprint != z.metadata.get("fingerprint"):
            notes = ("The aggregates are of other events than the embedding, or of more entities.",)
        moments = _moments(data) if cutoffs is None else cutoffs
        same = same_events(data, labelled, cutoffs)
        if moments is not None:
            moments = np.broadcast_to(moments, len(same)).copy()
        timed = with_moment(same, moments)
        sets["aggregates"] = encode(Aggregates(z.schema), same.sequences).numpy()
        sets["handcrafted"] = encode(Handcrafted(z.schema), timed.sequences).numpy()
        sets |= baselines(same)
    for name, table in (features or {}).items():
        if name in sets or name in TOGETHER:
            raise ConfigError(f"features may not be called {name!r}, which evaluate computes itself; rename them")
        sets[name] = _own_features(name, table, labelled, chosen.key or z.schema.key_out)
    result = score_features(
        sets,
        joined.labels,
        groups=joined.groups,
        holdout=z.held_out[joined.positions] if chosen.holdout else None,
        label=label,
        learned_from=z.metadata.get("labels"),
        progress=progress,
        **vars(gather(options, EvaluationOptions, LabelOptions)),
    )
    return replace(result, notes=(*joined.notes, *result.notes, *notes))


def _moments(data: Dataset) -> Array | None:
    """Return the time of the last event of all data, the moment of prediction; None if the data were cut at a time."""
    cut_at = data.origin.until is not None or "cutoff_column" in data.origin.options
    times_ = data.sequences.values("time").cpu().numpy()
    return None if cut_at or not len(times_) else times_.max()


def _own_features(name: str, table: Tabular, z: Embeddings, key: str) -> Array:
    """Return `(n, d)` features of the caller, in the order of the embeddings.

    Raises:
        DataError: If the table lacks the key or a labelled entity, repeats a key, or has a column that is no number.
    """
    where = f"the table of features {shown(name)}"
    frame = read_table(table, table=where)
    if key not in frame.columns:
        raise DataError(f"{where} has no column {shown(key)}, the key; {nearest(key, frame.columns)}")
    columns = [column for column in frame.columns if column != key]
    for column in columns:
        if not (frame[column].dtype.is_numeric() or frame[column].dtype == pl.Boolean):
            raise DataError(
                f"column {shown(column)} of {where} holds {frame[column].dtype}; accepted: numbers, booleans"
            )
    if frame[key].n_unique() < len(frame):
        raise DataError(f"{where} has {len(frame) - frame[key].n_unique():,} repeated keys; each entity needs one row")
    rows = np.full(len(z), -1)
    positions = align(z.keys, frame, key)
    rows[positions[positions >= 0]] = np.flatnonzero(positions >= 0)
    if absent := int((rows < 0).sum()):
        raise DataError(f"{absent:,} of {len(z):,} labelled entities have no row in {where}; every one needs a row")
    values: Array = frame.select(columns).cast(pl.Float64).to_numpy()[rows]
    return values
