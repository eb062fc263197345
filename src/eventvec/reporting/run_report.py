"""`report`: one page about a model, its embeddings, their neighbours, and what they are worth on labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from eventvec.answers import Answer
from eventvec.answers.charts import PALETTE
from eventvec.answers.page import Section, Widget
from eventvec.dataset import Dataset, repeated
from eventvec.embedding import embed
from eventvec.errors import ConfigError, need, shown
from eventvec.evaluation import EvaluationOptions, LabelOptions, evaluate
from eventvec.evaluation.evaluation_charts import charts
from eventvec.evaluation.leaks import same_events
from eventvec.evaluation.measure_charts import measure_charts
from eventvec.models import Model, check_model
from eventvec.models.learned import LEARNED
from eventvec.options import accepts, check_seed, gather
from eventvec.predicting.predictor_answer import explained
from eventvec.reporting.entity_columns import entity_columns
from eventvec.reporting.maps import FITTED, map2d, map_data
from eventvec.reporting.neighbours import neighbour_rows, neighbours_data, neighbours_of
from eventvec.reporting.overview import data_section, training_section
from eventvec.searching.vector_index import learned_part
from eventvec.tables import Embeddings, read, until
from eventvec.tables.keys import texts
from eventvec.tables.label_times import labelled_histories, labels_beside
from eventvec.tables.sources import Tabular, kept

JOINED = ("key", "label_time", "inclusive")
"""The options that say how a table of labels is joined to the embeddings, for the colours of the map too."""
FEWEST = 4
"""The smallest number of embeddings of which a map is drawn."""
LINES = 5
"""The largest number of lines of a decision."""
FOLDER = Path(__file__).parent
NO_LABELS = (
    "Nothing here says what the vectors are worth, because no label was evaluated: give labels (labels=, LABELS and "
    "--label)."
)
PRIVACY = (
    "What shapes the events of people, such as age, health or where they live, can often be read from their vectors, "
    "even if it was never a column; eventvec audit measures it. This page contains keys and events, so protect it like "
    "the events."
)


@accepts(LabelOptions, EvaluationOptions)
def report(
    model: Model | None = None,
    data: Dataset | Tabular | None = None,
    *,
    embeddings: Embeddings | None = None,
    labels: Tabular | None = None,
    label: str | Sequence[str] = (),
    evaluations: Answer | Sequence[Answer] = (),
    drivers: Answer | None = None,
    title: str = "",
    lead: str = "",
    map_seed: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
    **options: Any,
) -> Answer:
    """Return an answer with one self-contained page; each argument adds its sections.

    A model adds the course of its training. Data add lengths, rates, missing and unknown values, and histories beside
    the map. Embeddings, which a model and data make if they are not given, add a map of the entities and their nearest
    neighbours. Labels colour the map. A named label is evaluated too, as by `evaluate`, and if the report makes the
    embeddings, as of the times of the labels.

    Args:
        model: The model, from `fit` or `load`.
        data: The events, read or to be read by the schema of the model or of the embeddings.
        embeddings: The embeddings, from `embed` or `read_embeddings`.
        labels: A table with the key and further columns, as `read` takes tables. The map can be coloured by each.
        label: The columns of this table to evaluate, one after the other.
        evaluations: Evaluations that were made before, from `evaluate`.
        drivers: What drives the score of a label, from `influence`.
        title: The title of the page.
        lead: A sentence or two about the model, below the decision.
        map_seed: Seed of the map and of the entities that are drawn as examples.
        progress: Called with the number of steps done, of all steps, and the name of the next one.
        options: The fields of `LabelOptions` and `EvaluationOptions`, for the evaluation of `label`.

    Returns:
        The decision is that of the evaluation, or the first line of each of several. The rows are their results.

    Raises:
        ConfigError: If there is nothing to show, an argument has another type or needs another one, an option is out of
            range, or an optional package is not installed.
        DataError: If the data are not those that were embedded, or the labels cannot be used.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [1, 1, 2, 2], "day": [1, 2, 1, 2], "paid": [0.5, 1.0, 2.0, 3.0]})
        >>> run = ev.fit(ev.read(events, key="card", time="day", numeric=["paid"]), method="ocp", epochs=1)
        >>> result = ev.report(run, title="My cards")
        >>> result.verdict[0][:44], "<h1>My cards</h1>" in result.html
        ('Nothing here says what the vectors are worth', True)
    """
    evaluations = [evaluations] if isinstance(evaluations, Answer) else list(evaluations)
    names = [label] if isinstance(label, str) else list(label)
    chosen = gather(options, LabelOptions, EvaluationOptions)
    check_seed("map_seed", map_seed, 31)
    _check(model, data, embeddings, labels, names, evaluations, drivers)
    if unused := [name for name in options if not names and name not in JOINED]:
        raise ConfigError(f"{unused[0]} is for the evaluation of a label; name one: label= (--label)")
    need_packages()

    def advance(done: int, step: str) -> None:
        if progress:
            progress(done, len(names) + 1, step)

    if data is not None and not isinstance(data, Dataset):
        data = model.read(data) if model else read(data, schema=embeddings.schema)  # type: ignore[union-attr]
    labels = None if labels is None else kept(labels)
    scored, histories = embeddings, data
    if embeddings is None and model is not None and isinstance(data, Dataset):
        embeddings = scored = embed(model.representation, data)
        if names:
            timed = labels_beside(data, labels, names, chosen, key=chosen.key, group=chosen.group, weight=chosen.weight)
            histories = labelled_histories(data, timed)
            scored = embeddings if histories is data else embed(model.representation, histories)
    mapped, events = (scored, histories) if scored is not None and repeated(scored.keys) else (embeddings, data)
    for done, name in enumerate(names):
        advance(done, f"evaluating {name}")
        assert scored is not None
        evaluations.append(evaluate(scored, histories, labels, name, **options))
    verdict, everywhere = _verdict(evaluations), _in_all(evaluations)
    sections = [_result(each, verdict, everywhere) for each in evaluations]
    if model is not None:
        sections += [_of_head(explained(head)) for head in model.heads.values()]
    if drivers is not None:
        sections.append(Section("What drives a vector", charts=drivers.figures, tables=drivers.tables))
    advance(len(names), "placing the entities")
    notes = everywhere if model is None else (*everywhere, *model.notes)
    if mapped is not None and len(mapped) >= FEWEST:
        first = [] if drivers is None else [str(next(iter(row.values()))) for row in drivers.rows]
        nearby, more = _map(mapped, events, labels, chosen, map_seed, first)
        sections.append(nearby)
        notes += more
    sections += [] if model is None else [training_section(model.history)]
    sections += [] if data is None else [data_section(data)]
    rows = [{"label": each.facts["label"], **row} for each in evaluations for row in each.rows]
    if not title:
        subject = f"What predicts {evaluations[0].facts['label']}" if evaluations else "Embeddings"
        title = f"Model {model.id}" if model else subject
    return Answer(
        verdict, {"results": rows}, (*notes, PRIVACY), facts=_facts(model, embeddings), title=title, lead=lead,
        sections=tuple(sections), basis=tuple(evaluations),
    )  # fmt: skip


def _verdict(evaluations: Sequence[Answer]) -> tuple[str, ...]:
    """Return the lines of one evaluation, or the first line of each of several, in at most five lines."""
    if len(evaluations) == 1:
        return evaluations[0].verdict
    lines = [each.verdict[0] for each in evaluations]
    if len(lines) > LINES:
        lines[LINES - 1 :] = [f"{len(lines) - LINES + 1} more labels are below."]
    return tuple(lines) or (NO_LABELS,)


def _in_all(evaluations: Sequence[Answer]) -> tuple[str, ...]:
    """Return the notes that all of several evaluations have, which the page has once."""
    notes = evaluations[0].notes if len(evaluations) > 1 else ()
    return tuple(note for note in notes if all(note in each.notes for each in evaluations))


def _result(evaluation: Answer, verdict: Sequence[str], everywhere: Sequence[str]) -> Section:
    """Return the section of a label: the lines and notes that are not elsewhere on the page, and the scores."""
    (chart,) = charts(evaluation.rows, evaluation.facts)
    measures = {name: rows for name, rows in evaluation.tables.items() if name not in ("results", "differences")}
    return Section(
        chart.title,
        [line for line in evaluation.verdict if line not in verdict],
        [chart, *measure_charts(measures, evaluation.facts["label"])],
        tables={"All scores": evaluation.rows, **measures},
        notes=[note for note in evaluation.notes if note not in everywhere],
    )


def _of_head(answer: Answer) -> Section:
    """Return the section of what a head is worth."""
    return Section(answer.title, answer.verdict, answer.figures, tables=answer.tables, notes=answer.notes)


def _check(
    model: Any, data: Any, embeddings: Any, labels: Any, names: list[str], evaluations: list[Any], drivers: Any
) -> None:
    """Refuse arguments of another type, and those that lack another argument."""
    if model is not None:
        check_model(model)
    if embeddings is not None and not isinstance(embeddings, Embeddings):
        kind = type(embeddings).__name__
        raise ConfigError(f"embeddings must be Embeddings, got {kind}; read them: ev.read_embeddings(path)")
    if wrong := next((each for each in evaluations if not isinstance(each, Answer) or "task" not in each.facts), None):
        raise ConfigError(f"evaluations must be results of evaluate, got {shown(wrong)}")
    if drivers is not None and not (isinstance(drivers, Answer) and drivers.rows and "change" in drivers.rows[0]):
        raise ConfigError("drivers must be the result of influence: ev.influence(run, events, labels, label)")
    if model is None and embeddings is None and not evaluations:
        raise ConfigError("there is nothing to report; give a model, embeddings (embeddings=) or evaluations")
    if data is not None and not isinstance(data, Dataset) and model is None and embeddings is None:
        raise ConfigError("a table of events needs the model or the embeddings, by whose schema it is read")
    if labels is not None and embeddings is None and (model is None or data is None):
        raise ConfigError("labels need the embeddings that they belong to: give events or embeddings")
    if names and labels is None:
        raise ConfigError("a label needs the table that has it; give labels= (LABELS)")


def _map(
    z: Embeddings, data: Dataset | None, labels: Tabular | None, options: LabelOptions, seed: int, first: list[str]
) -> tuple[Section, tuple[str, ...]]:
    """Return the section with the map and the neighbours, and notes."""
    if data is not None and (time := z.metadata.get("until")) is not None and data.origin.until != time:
        data = until(data, time)
    events = None if data is None else same_events(data, z, z.moments)
    columns, notes = entity_columns(z, events, labels, options)
    names = texts(z.keys).alias(z.schema.key_out)
    near = neighbours_of(z, events, seed, first)
    html, style, *scripts = (
        (FOLDER / name).read_text("utf-8") for name in ("map.html", "map.css", "map.js", "neighbours.js")
    )
    points = map_data(map2d(learned_part(z), seed), columns, names)
    widget = Widget(
        html, style, "\n".join(scripts), {"map": points, "neighbours": neighbours_data(near), "palette": PALETTE}
    )
    tables = {"Typical entities and their nearest neighbours": neighbour_rows(near, names, z, events)}
    return Section("Who is like whom", (map_caption(z), near.rule), widget=widget, tables=tables), notes


def need_packages() -> None:
    """Refuse to begin without the packages that a page needs.

    Raises:
        ConfigError: If matplotlib, jinja2 or openTSNE is not installed.
    """
    for module in ("matplotlib", "jinja2", "openTSNE"):
        need(module, "viz")


def map_caption(z: Embeddings) -> str:
    """Return how to read the map of embeddings."""
    part = "the learned part of the embedding" if "learned" in z.parts else "the embedding"
    placed = (
        f" t-SNE placed {FITTED:,} of them, drawn by lot, and every other one lies between its nearest three of these."
    )
    return (
        f"Each point is one of {len(z):,} entities, and close points have similar histories, by t-SNE of {part}; the "
        f"axes and far distances mean nothing.{placed if len(z) > FITTED else ''} Choose one to see the histories of "
        "its nearest neighbours, by cosine similarity."
    )


def _facts(model: Model | None, z: Embeddings | None) -> dict[str, str]:
    facts: dict[str, str] = {}
    if model is not None:
        facts["blocks"] = ", ".join(model.blocks)
        if model.heads:
            facts["heads"] = ", ".join(model.heads)
        if LEARNED in model.blocks:
            method, encoder = model.config.get("method", {}), model.config.get("encoder", {})
            facts["method"] = str(method.get("name", type(model.method).__name__))
            if "name" in encoder:
                facts["encoder"] = f"{encoder['name']} {encoder.get('dim', '')}".strip()
            facts["training"] = f"{model.usable:,} entities, {model.seconds:,.0f} s"
    if z is not None:
        facts["embedded"] = f"{len(z):,} rows of {z.shape[1]} numbers"
    name = model.id if model is not None else z.metadata.get("run") if z is not None else None
    return facts | ({} if name is None else {"run": str(name)})
