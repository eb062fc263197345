"""`evaluate`: how well embeddings predict a table of labels, beside hand-crafted aggregates of the same events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from eventvec.dataset import Dataset
from eventvec.embedding import encode
from eventvec.encoders.aggregates import Aggregates
from eventvec.evaluation.labels import join_labels
from eventvec.evaluation.leaks import label_times, refuse_later_events, same_events
from eventvec.evaluation.result import Evaluation
from eventvec.evaluation.scoring import EvaluationOptions, score_features
from eventvec.options import accepts
from eventvec.tables import Embeddings, read_table, times
from eventvec.tables import until as cut
from eventvec.tables.sources import Tabular


@accepts(EvaluationOptions)
def evaluate(
    z: Embeddings,
    data: Dataset | None,
    labels: Tabular,
    label: str,
    *,
    key: str | None = None,
    group: str | None = None,
    label_time: str | None = None,
    until: times.Instant | None = None,
    holdout: bool = False,
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
        key: The name of the key in the table of labels, if it is another.
        group: A column of the table of labels. Entities of one group, such as a household, are never split between
            training and test.
        label_time: A column of the table of labels with the time of each label; only earlier events may be used.
        until: A time for all labels; only earlier events may be used.
        holdout: Whether to test on the entities that the encoder never saw, see `score_features`.
        progress: Called with the number of models that are done and of all models.
        options: The fields of `EvaluationOptions` (task, folds, fractions, seed, models, num_threads).

    Raises:
        DataError: If a column is absent, no key matches, an embedding was made from later events, the data are not
            those that were embedded, or the labels cannot be used.
        ConfigError: If an option is out of range, or `holdout` is true and the runs held no entities out.

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
    joined = join_labels(
        z.keys, z.schema.key_out, read_table(labels), label, table_key=key, group=group, time=label_time
    )
    labelled = z[joined.positions]
    cutoffs = None if joined.times is None else label_times(z.schema, joined.times)
    refuse_later_events(labelled, until, None if cutoffs is None else (str(label_time), cutoffs))
    features, notes = {"embedding": labelled.values}, tuple[str, ...]()
    if data is not None:
        time = z.metadata.get("until") if until is None else until
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
        holdout=z.held_out[joined.positions] if holdout else None,
        label=label,
        learned_from=z.metadata.get("labels"),
        progress=progress,
        **options,
    )
    return replace(result, notes=(*joined.notes, *result.notes, *notes))
