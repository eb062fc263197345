"""`evaluate`: how well embeddings predict a table of labels, beside hand-crafted aggregates of the same events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from eventvec.answers import Answer
from eventvec.blocks.caller_features import caller_features
from eventvec.blocks.earlier_labels import delayed_labels
from eventvec.blocks.handcrafted_sets import bounded, feature_texts
from eventvec.dataset import Dataset, last_time, repeated
from eventvec.embedding import embed, encode, with_moment
from eventvec.encoders.aggregates import Aggregates
from eventvec.encoders.handcrafted import Handcrafted
from eventvec.errors import ConfigError, nearest, printable, shown
from eventvec.evaluation.baselines import baselines
from eventvec.evaluation.evaluation_options import EvaluationOptions, LabelOptions
from eventvec.evaluation.leaks import (
    read_inclusively,
    refuse_later_events,
    same_events,
    with_cutoffs,
)
from eventvec.evaluation.part_sets import is_part, part_sets
from eventvec.evaluation.result import EARLIER, LEARNED, MADE
from eventvec.evaluation.scoring import Unfinished, score_features
from eventvec.evaluation.suspicion import OPENING
from eventvec.examples.labelled import Examples, join_examples, static_groups
from eventvec.learners.parallel import Progress
from eventvec.models import Model
from eventvec.options import accepts, gather
from eventvec.sequences import Array
from eventvec.tables import Embeddings, read, times
from eventvec.tables import until as cut
from eventvec.tables.keys import rows_among
from eventvec.tables.label_times import (
    TimedLabels,
    after_the_last_event,
    doubts,
    fitted_later,
    hides_later,
    labelled_histories,
    labels_beside,
)
from eventvec.tables.sources import Tabular, columns_of, kept


@accepts(LabelOptions, EvaluationOptions)
def evaluate(
    z: Embeddings | Model,
    data: Dataset | Tabular | None,
    labels: Tabular,
    label: str | Sequence[str],
    *,
    features: Mapping[str, Tabular] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Answer:
    """Return how well embeddings predict a label, beside hand-crafted features of the same events, in the same folds.

    The opponents are `handcrafted`, which has timing as of the moment of prediction too, and the caller's `features`.
    The moment of prediction is the time of the label, or `until`, or the last event of the data. `untrained` is the
    mean of an event encoder with random weights. If the embedding has parts, as `fit` with `beside` makes it, its
    learned part is scored too: `embedding: learned`. With `earlier_labels`, features of the entity's own labels that
    were known by then are added, see `docs/concepts/evaluation.md`.

    Each set of features is judged by boosted trees and a linear model, weighted inside the training part of each fold.

    Labels are joined by key, and every row that does not fit is counted. Embeddings that were made from events at or
    after the time of their label are refused; the notes say so where labels have no time. If the histories were cut at
    the times of the labels (`cutoffs`), labels are joined by key and time, all features are as of that time, and the
    rows of an entity are never split.

    Relations: `score_features` does the same for features and labels that are aligned already.

    Args:
        z: The embeddings, from `embed`, `update` or `read_embeddings`; or a model, of which the vectors as of the times
            of the labels are scored, or without vectors the features that its heads read.
        data: The events that were embedded, read by the same schema; without them, there are no hand-crafted features
            and no baselines.
        labels: A table with the key and the label, as `read` takes tables.
        label: The column to predict, or several columns of two values each, for a mean score.
        features: Tables of further features by name, each with the key and one row per entity; all other columns must
            be numbers. Every labelled entity needs a row, and missing numbers are an error.
        progress: Called with the number of folds that are done, of all folds, and the name of the next one.
        options: The fields of `EvaluationOptions` (task, folds, fractions, seed, models, num_threads).

    Raises:
        DataError: If a column is absent, no key matches, an embedding was made from later events, the data are not
            those that were embedded, or the labels cannot be used.
        ConfigError: If an argument has another type, an option is out of range or needs another one, or `holdout` is
            true and the runs held no entities out.

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
        ['embedding', 'handcrafted', 'untrained', 'embedding_handcrafted']
    """
    chosen = gather(options, LabelOptions, EvaluationOptions)
    if not isinstance(z, Embeddings | Model):
        kind = type(z).__name__
        raise ConfigError(
            f"z must be Embeddings or a Model, got {kind}; take those of embed, or read them: ev.read_embeddings(path)"
        )
    names = [label] if isinstance(label, str) else list(label) if isinstance(label, Sequence) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"label must be the name of a column, or of several, got {shown(label)}")
    if len(set(names)) < len(names):
        raise ConfigError(f"the labels must be distinct columns, got {shown(', '.join(names))}")
    labels = kept(labels)
    if isinstance(z, Model):
        z, data = _represented(z, data, labels, names, chosen)
    if chosen.until is not None:
        z = replace(z, metadata={**z.metadata, "until": chosen.until})
    subgroups = chosen.groups if chosen.groups in columns_of(labels) else None
    timed = labels_beside(
        z, labels, names, chosen, key=chosen.key, group=chosen.group, weight=chosen.weight, subgroups=subgroups
    )
    examples = join_examples(z, timed)
    _refuse_leaks(examples, timed, chosen.until)
    for option in ("split_at", EARLIER):
        if vars(chosen)[option] is not None and examples.times is None:
            raise ConfigError(
                f"{option} needs the time of each label; name its column in the label table: label_time= (--label-time)"
            )
    later, notes, moments = None, examples.notes, examples.times
    if chosen.split_at is not None:
        examples, later, split_notes = _split(examples, chosen)
        notes += split_notes
    if isinstance(data, Dataset) and moments is not None:
        notes += after_the_last_event(data, moments, str(timed.time))
    notes += fitted_later(z.schema, z.metadata.get("holdouts") or (), moments)
    z, moments = examples.rows, examples.times
    sets, texts_of, feature_notes = _feature_sets(z, data, moments, chosen.until, chosen.also)
    if chosen.earlier_labels is not None:
        assert moments is not None
        sets[EARLIER], texts_of[EARLIER], note = delayed_labels(
            z, _limits(z, moments), timed, timed.key, examples.target(options.get("task")).each, chosen.earlier_labels,
            chosen.inclusive or read_inclusively(z),
        )  # fmt: skip
        feature_notes += (note,)
    for name, table in (features or {}).items():
        if name in sets or name in MADE or is_part(name):
            raise ConfigError(f"features may not be called {name!r}, which evaluate computes itself; rename them")
        of_rows = None if moments is None else pl.Series(str(timed.time), moments)
        if moments is not None and timed.time not in columns_of(table):
            feature_notes += (hides_later(f"The table of features {shown(name)}"),)
        sets[name], of_set = caller_features(name, table, z, chosen.key, of_rows)
        texts_of[name] = [f"{shown(column)} of {shown(name)}" for column in of_set]
    told = None
    if chosen.groups is not None:
        of_rows_ = examples.subgroups if subgroups else _static_groups(z, data, chosen.groups, columns_of(labels))
        told = {chosen.groups: of_rows_}
    run = z.metadata.get("run")

    def described(answer: Answer) -> Answer:
        """Return the answer with the notes about what was joined, and the id of the run."""
        if (about := doubts(notes)) and not answer.verdict[0].startswith(OPENING):  # they weigh more than others
            answer = replace(answer, verdict=(*answer.verdict[: 5 - len(about)], *about))
        return replace(answer, notes=(*notes, *answer.notes, *feature_notes), facts={**answer.facts, "run": run})

    try:
        return described(
            score_features(
                sets,
                examples.labels,
                groups=examples.groups,
                entities=examples.entities,
                holdout=z.held_out if chosen.holdout else None,
                later=later,
                both_sides=chosen.both_sides,
                weights=examples.weights,
                label=examples.name,
                learned_from=z.metadata.get("labels"),
                names=texts_of,
                subgroups=told,
                progress=progress,
                **vars(gather(options, EvaluationOptions, LabelOptions)),
            )
        )
    except Unfinished as stop:
        stop.answer = described(stop.answer)
        raise


def _represented(
    model: Model, events: Any, labels: Tabular, names: Sequence[str], options: LabelOptions
) -> tuple[Embeddings, Dataset]:
    """Return what a model reads of histories as of the times of labels, and these histories."""
    if events is None:
        raise ConfigError("a model needs the events that it reads; give them: evaluate(model, events, labels, label)")
    data = model.read(events)
    if options.until is not None:
        data = cut(data, options.until)
    timed = labels_beside(data, labels, names, options, key=options.key, group=options.group, weight=options.weight)
    histories = labelled_histories(data, timed)
    return embed(model.representation, histories), histories


def _static_groups(z: Embeddings, data: Any, name: str, columns: Iterable[str]) -> Array:
    """Return the value of a static column of the data for each embedding."""
    if not isinstance(data, Dataset):
        raise ConfigError(
            f"groups names {shown(name)}, which is no column of the labels; {nearest(name, columns)}, or a static "
            "column of a data set"
        )
    timed = data.moments is not None and repeated(data.keys)
    positions = rows_among(z, data.keys, "key", data.moments if timed else None, z.moments)
    return np.asarray(static_groups(data, name, columns)[positions])


def _refuse_leaks(examples: Examples[Embeddings], timed: TimedLabels, until: times.Instant | None) -> None:
    """Refuse embeddings with events after the time of their label, or after the time for all labels."""
    z = examples.rows
    if until is not None:
        limit = times.instant(z.schema, until)
        refuse_later_events(z, limit, str(until), "embed the events before it: --until", examples.inclusive)
    if examples.times is not None:
        where = f"the time in {shown(str(timed.time))}"
        refuse_later_events(z, examples.times, where, with_cutoffs(z, timed), examples.inclusive)


def _split(
    examples: Examples[Embeddings], options: LabelOptions
) -> tuple[Examples[Embeddings], Array, tuple[str, ...]]:
    """Return the examples outside the gap before a date, whether they are later, and notes."""
    z, moments = examples.rows, examples.times
    assert options.split_at is not None
    assert moments is not None
    date = times.instant(z.schema, options.split_at)
    later, ends = moments >= date, moments
    if options.gap is not None:
        ends = times.duration(z.schema, options.gap).after(moments, z.schema.time_zone)
    rows = np.flatnonzero(later | (ends <= date))
    unknown = (
        f"The split at {printable(str(options.split_at))} is one of labels; the encoder may have seen later events."
    )
    notes = [] if z.metadata.get("holdouts") else [unknown]
    if options.gap is not None:
        within = len(moments) - len(rows)
        notes.append(f"{within:,} labels in the gap of {printable(str(options.gap))} before that time were left out.")
    return examples[rows], later[rows], tuple(notes)


def _limits(z: Embeddings, moments: Array) -> Array:
    """Return `(n,)` the times of the labels, or those at which the histories end if they are earlier."""
    limits = moments if z.moments is None else np.minimum(moments, z.moments)
    time = z.metadata.get("until")
    return limits if time is None else np.minimum(limits, times.instant(z.schema, time))


def _feature_sets(
    z: Embeddings,
    data: Dataset | Tabular | None,
    moments: Array | None,
    until: times.Instant | None,
    also: Sequence[str],
) -> tuple[dict[str, Array], dict[str, list[str]], tuple[str, ...]]:
    """Return the embedding, hand-crafted features, baselines and parts by name, what their features are, and notes."""
    sets, texts_of = {"embedding": z.values}, dict[str, list[str]]()
    parts = {
        name: values for name, values in part_sets(z.values, z.parts).items() if name == LEARNED or "parts" in also
    }
    if data is None:
        return sets | parts, texts_of, ()
    data = data if isinstance(data, Dataset) else read(data, schema=z.schema)
    time = z.metadata.get("until") if until is None else until
    if time is not None and data.origin.until != time:
        data = cut(data, time)
    cutoffs, notes = moments if z.moments is None else z.moments, list[str]()
    same = same_events(data, z, cutoffs)
    known = z.metadata.get("fingerprint")  # unknown of embeddings that were written in parts
    is_other = data.fingerprint != known if known else not np.array_equal(same.sequences.lengths.numpy(), z.events)
    if cutoffs is None and is_other:
        notes.append("The hand-crafted features are of other events than the embedding, or of more entities.")
    last = last_time(data.sequences)
    if cutoffs is None and data.origin.until is None and data.moments is None and last is not None:
        cutoffs = np.full(len(same), last)  # the last event of all data is the moment of prediction
    timed = with_moment(same, cutoffs)
    kinds: dict[str, type[Aggregates] | type[Handcrafted]] = {"aggregates": Aggregates, "handcrafted": Handcrafted}
    if "aggregates" not in also and not z.schema.bags:  # hand-crafted features have nothing of columns of lists
        del kinds["aggregates"]
    for name, kind in kinds.items():
        encoder, note = bounded(kind, z.schema)
        sets[name] = encode(encoder, timed.sequences).numpy()
        texts_of[name] = feature_texts(z.schema, encoder)
        notes += [note] if note else []
    simple = {name: values for name, values in baselines(same).items() if name == "untrained" or name in also}
    return sets | simple | parts, texts_of, tuple(notes)
