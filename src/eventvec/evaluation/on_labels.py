"""`evaluate`: how well embeddings predict a table of labels, beside hand-crafted aggregates of the same events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from eventvec.dataset import Dataset
from eventvec.embedding import encode
from eventvec.encoders.aggregates import Aggregates
from eventvec.errors import ConfigError, shown
from eventvec.evaluation.labels import join_labels
from eventvec.evaluation.leaks import label_times, refuse_later_events, same_events
from eventvec.evaluation.result import Evaluation
from eventvec.evaluation.scoring import EvaluationOptions, score_features
from eventvec.options import accepts, gather
from eventvec.tables import Embeddings, read, read_table, times
from eventvec.tables import until as cut
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
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Evaluation:
    """Return how well embeddings predict a label, beside aggregates of the same events, in the same folds.

    Labels are joined by key, and every row that does not fit is counted. Embeddings that were made from events at or
    after the time of their label are refused.

    Relations: `score_features` does the same for features and labels that are aligned already.

    Args:
        z: The embeddings, from `embed`, `update` or `read_embeddings`.
        data: The events that were embedded, read by the same schema; without them, there are no aggregates.
        labels: A table with the key and the label, as `read` takes tables.
        label: The column to predict.
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
        ['embedding', 'aggregates', 'both']
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
    features, notes = {"embedding": labelled.values}, tuple[str, ...]()
    if data is not None:
        data = data if isinstance(data, Dataset) else read(data, schema=z.schema)
        time = z.metadata.get("until") if chosen.until is None else chosen.until
        if time is not None and data.origin.until != time:
            data = cut(data, time)
        if cutoffs is None and data.fingerprint != z.metadata.get("fingerprint"):
            notes = ("The aggregates are of other events than the embedding, or of more entities.",)
        same = same_events(data, labelled, cutoffs)
        features["aggregates"] = encode(Aggregates(z.schema), same.sequences).numpy()
    result = score_features(
        features,
        joined.labels,
        groups=joined.groups,
        holdout=z.held_out[joined.positions] if chosen.holdout else None,
        label=label,
        learned_from=z.metadata.get("labels"),
        progress=progress,
        **vars(gather(options, EvaluationOptions, LabelOptions)),
    )
    return replace(result, notes=(*joined.notes, *result.notes, *notes))
