"""`influence`: which fields and periods of the events drive a score, a prediction, or the vectors themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import torch

from eventvec.answers import Answer
from eventvec.attribution import changes
from eventvec.attribution.influence_options import InfluenceOptions
from eventvec.attribution.movements import distances, relative_movements
from eventvec.attribution.score_changes import other_labels, prediction_changes, score_changes
from eventvec.attribution.vectors_without import VectorsWithout
from eventvec.dataset import Dataset, check_entities
from eventvec.embedding import Progress, encode, with_moment
from eventvec.encoders.interface import capabilities, readable_rows
from eventvec.errors import ConfigError, DataError
from eventvec.evaluation.protocols import choose_protocol
from eventvec.evaluation.scoring import chosen_models as choose
from eventvec.examples.labelled import Examples, join_examples
from eventvec.learners.metrics import METRICS
from eventvec.learners.single_learners import linear
from eventvec.learners.task import Target
from eventvec.models import Model, check_model
from eventvec.options import accepts, gather, those_of
from eventvec.sequences import Array
from eventvec.statistics import Estimate
from eventvec.tables.keys import align
from eventvec.tables.label_times import fitted_later, labelled_histories, labels_beside
from eventvec.tables.read_options import Cuts, TableFormat
from eventvec.tables.sources import Tabular

BY_CHANCE = "By chance alone, about one in twenty of the intervals does not hold 0."
OF_HEADS = "Why the heads of the model predict what they do is told by explain (eventvec explain)."
OUT_OF_DISTRIBUTION = (
    "The encoder was trained with all fields and periods, and a history without one is unlike its training data. To "
    "learn what an encoder loses without a field or period, train one without it."
)


@accepts(InfluenceOptions, Cuts, TableFormat)
def influence(
    run: Model,
    events: Dataset | Tabular,
    labels: Tabular | None = None,
    label: str | None = None,
    *,
    entity: Any = None,
    progress: Progress | None = None,
    **options: Any,
) -> Answer:
    """Return what drives the vectors of a run: the change when each field and each period of the events is left out.

    A field is left out by making its values missing, as they are in a table: code 0 or NaN, an empty list or text. The
    time of events cannot be missing; it is left out by giving an entity's events the time of its last one, and a
    missing `gap`. A period is left out by removing its events; the others keep their `gap`. Periods are the first,
    middle and last third and the last tenth of each entity's events, and for dates and timestamps the days, weeks,
    months, quarters or years: the finest unit that gives at most eight periods.

    With labels, the change is that of a score in cross-validation. In each fold, a model is trained once, on the full
    vectors of the other folds, and tested on the fold with the full vectors and without each part. The score is the
    main one of `evaluate`, in the same folds; its change is below 0 where the prediction needs the part. Without
    labels, the change is how far vectors move: the mean of 1 − cosine similarity of the full vector and that without
    the part, divided by the mean of all pairs of entities.

    For one entity, the change is that of its prediction (with labels, its probability of the positive class, or its
    number) by models trained on the other entities, or how far its own vector moves.

    The encoder was trained with the part, and may never have seen its values missing. So this says what this encoder
    and this model use, and not what another encoder, trained without the part, would lose.

    Relations: `evaluate` compares vectors with other features, and a vector with the same without one of its parts.

    Args:
        run: A run, from `fit` or `load`.
        events: The events, as `Model.read` takes them, with one row per entity.
        labels: A table with the key and the label, as `read` takes tables.
        label: The column to predict.
        entity: The key of one entity, to measure it alone.
        progress: Called with the number of vectors that are done and of all vectors.
        options: The fields of `InfluenceOptions` (key, group, task, folds, model, entities, seed), and as for
            `Model.read`.

    Returns:
        An answer with a row for each field and period, the largest influence first: its name `left_out`, `kind`
        (`field` or `period`) and `change` with its 95 % interval. Facts are the `measure` (a metric such as `auroc`,
        `prediction` or `movement`), the score or the prediction `with_all_events`, the number of entities `n`, and with
        labels the `label`, its `positive` class, whose probability is predicted, and the `model`.

    Raises:
        ConfigError: If it is no run, one of `labels` and `label` is given without the other, an option is out of range,
            unknown or has no meaning, or there are several rows per entity.
        DataError: If the events or the labels cannot be used, or no entity has the key.

    Example:
        >>> import eventvec as ev
        >>> rng = np.random.default_rng(0)
        >>> bought, paid = rng.choice(["tea", "ink"], 800), rng.random(800)
        >>> events = pl.DataFrame({"card": np.arange(800) % 80, "day": np.arange(800), "what": bought, "paid": paid})
        >>> labels = events.group_by("card").agg(likes=(pl.col("what") == "tea").mean() > 0.5)
        >>> run = ev.fit(ev.read(events, key="card", time="day"), method="coles", epochs=1)
        >>> result = ev.influence(run, events, labels, "likes")
        >>> result.rows[0]["left_out"], result.rows[0]["change"].place
        ('what', 'behind')
        >>> ev.influence(run, events, entity=7).frame().columns
        ['left_out', 'kind', 'change', 'change_low', 'change_high']
    """
    check_model(run)
    chosen = gather(options, InfluenceOptions, Cuts, TableFormat)
    _check_labels(labels, label, chosen)
    reading = those_of(options, Cuts, TableFormat)
    if "cutoffs" not in reading:
        reading.pop("inclusive", None)
    data = run.read(events, **reading)
    timed = None
    if labels is None or label is None:
        check_entities(data)
    else:
        timed = labels_beside(data, labels, [label], chosen, key=chosen.key, group=chosen.group)
        data = labelled_histories(data, timed)
    if entity is not None:
        check_entities(data)
    if capabilities(run.representation).reads_moment:
        data = with_moment(data)
    x = data.sequences
    usable = ((x.lengths > 0) & readable_rows(run.representation, x)).cpu().numpy()
    row = None if entity is None else _row_of(data, entity, usable)
    request = _Request(run, data, usable, row, chosen, progress)
    if timed is None:
        result, later = _of_vectors(request), tuple[str, ...]()
    else:
        examples = join_examples(data, timed)
        result, later = _of_labels(request, examples), fitted_later(run.schema, run.info["holdouts"], examples.times)
    left_out = f"{int((~usable).sum()):,} entities have no events that the encoder can read and were left out."
    notes = () if usable.all() else (left_out,)
    heads = (OF_HEADS,) if run.heads else ()
    return replace(result, notes=(*notes, *later, *result.notes, *heads, OUT_OF_DISTRIBUTION))


def _check_labels(labels: Tabular | None, label: str | None, chosen: InfluenceOptions) -> None:
    """Refuse a table of labels without the name of a label, and options that have no meaning without labels."""
    if (labels is None) != (label is None):
        raise ConfigError(
            "labels and label are given together or not at all: a table with the key and the label, and the column to "
            "predict (LABELS --label COLUMN)"
        )
    if label is not None and not isinstance(label, str):
        raise ConfigError(f"label must be the name of one column, got {type(label).__name__}")
    for name in ("key", "group", "task", "model"):
        if labels is None and vars(chosen)[name] is not None:
            raise ConfigError(f"{name} is given without labels, and has no meaning there; leave it out, or add labels")


def _row_of(data: Dataset, entity: Any, usable: Array) -> int:
    """Return the row of an entity; its key is never in a message."""
    try:
        row = int(align(data.keys, pl.DataFrame({"entity": [entity]}), "entity")[0])
    except (TypeError, OverflowError, pl.exceptions.PolarsError) as error:
        raise ConfigError(f"entity must be the key of one entity, got {type(entity).__name__}") from error
    if row < 0:
        raise DataError(
            f"none of {len(data):,} entities has the key that was given as entity= (--entity); write whole numbers in "
            "digits, UUIDs in lower case"
        )
    if not usable[row]:
        raise DataError("the entity has no events that the encoder can read, and so none to leave out")
    return row


@dataclass(frozen=True, eq=False)
class _Request:
    """What is measured: all rows that are `usable`, because the encoder can read their events, or one `row` of them."""

    run: Model
    data: Dataset
    usable: Array
    row: int | None
    chosen: InfluenceOptions
    progress: Progress | None

    def sample(self, rows: Array) -> tuple[Array, list[str]]:
        """Return rows, at most `entities` of them, in ascending order, and a note if others are left out."""
        n = self.chosen.entities
        if len(rows) <= n:
            return rows, []
        drawn = np.random.default_rng(self.chosen.seed).choice(rows, n, replace=False)
        note = f"A random sample of {n:,} of {len(rows):,} entities was used; see entities= (--entities)."
        return np.sort(drawn), [note]

    def vectors(self, rows: Array) -> Array:
        """Return the vectors of rows from all events."""
        return encode(self.run.representation, self.data.sequences[torch.from_numpy(rows)]).numpy()

    def measured(self, rows: Array) -> VectorsWithout:
        """Return the vectors of rows from all events, and, as they are asked for, without each part."""
        x = self.data.sequences[torch.from_numpy(rows)]
        return VectorsWithout(self.run.representation, x, self.data.schema, self.progress)


def _of_vectors(request: _Request) -> Answer:
    """Return how far vectors move."""
    sample, notes = request.sample(np.flatnonzero(request.usable))
    if request.row is None:
        measured = request.measured(sample)
        vectors = measured.full
    else:
        vectors, measured = request.vectors(sample), request.measured(np.array([request.row]))
        notes = [*notes, f"The distance between two entities is the mean over {len(sample):,} entities."]
    parts, moved = zip(*((part, distances(measured.full, z)) for part, z in measured.each()), strict=True)
    movements = relative_movements(vectors, moved, request.chosen.seed, entity=request.row is not None)
    facts = {"measure": "movement", "n": len(measured.full)}
    return changes.answer("movement", parts, movements, facts, *notes, *measured.notes())


def _of_labels(request: _Request, examples: Examples[Dataset]) -> Answer:
    """Return how a score changes, or the prediction for one entity."""
    chosen, notes = request.chosen, examples.notes
    drawn, sampled = request.sample(np.flatnonzero(request.usable[examples.positions]))
    examples = examples[drawn]
    groups, labelled = examples.units, examples.target(chosen.task)
    model = choose(labelled.task, [chosen.model or linear(labelled.task)])[0][0]
    measured = _score if request.row is None else _prediction
    result = measured(request, labelled, examples.positions, groups, model)
    return replace(result, notes=(*notes, *sampled, *result.notes))


def _score(request: _Request, labelled: Target, rows: Array, groups: Array | None, model: str) -> Answer:
    """Return how the score of a label changes; `rows` are those of the labelled entities."""
    chosen = request.chosen
    protocol = choose_protocol(
        labelled, groups, None, None, both_sides=False, folds=chosen.folds, seed=chosen.seed,
        learned_from=request.run.lineage.labels,
    )  # fmt: skip
    measured = request.measured(rows)
    parts, vectors = zip(*measured.each(), strict=True)
    scores, changed = score_changes(measured.full, vectors, protocol, model, chosen.seed)
    facts = _facts(METRICS[labelled.task][0], labelled, scores.estimate, len(rows), model)
    estimates, notes = [each.estimate for each in changed], (*protocol.notes, *measured.notes(), BY_CHANCE)
    return changes.answer("score", parts, estimates, facts, *notes)


def _prediction(request: _Request, labelled: Target, rows: Array, groups: Array | None, model: str) -> Answer:
    """Return how the prediction for one entity changes; `rows` are those of the labelled entities."""
    if labelled.task == "multiclass":
        raise ConfigError(
            f"label {labelled.name!r} has {len(labelled.classes):,} classes, and the prediction of a class for one "
            "entity has no change; leave entity= (--entity) out, or give a label of two classes or of numbers"
        )
    assert request.row is not None
    labelled, groups = other_labels(replace(labelled, rows=rows), groups, request.row)
    z, measured = request.vectors(labelled.rows), request.measured(np.array([request.row]))
    parts, vectors = zip(*measured.each(), strict=True)
    one = np.concatenate([measured.full, *vectors])
    folds, seed = request.chosen.folds, request.chosen.seed
    prediction, changed = prediction_changes(z, labelled, groups, one, folds, model, seed)
    note = (
        f"The prediction is the mean of {folds} models of {len(z):,} other entities, each trained "
        "without one fold of them; the intervals are over these models."
    )
    facts = _facts("prediction", labelled, Estimate(prediction), 1, model)
    return changes.answer("prediction", parts, changed, facts, note, *measured.notes())


def _facts(measure: str, labelled: Target, full: Estimate, n: int, model: str) -> dict[str, Any]:
    """Return what the changes are of."""
    of_label = {"measure": measure, "label": labelled.name, "positive": labelled.positive}
    return {**of_label, "with_all_events": full, "n": n, "model": model}
