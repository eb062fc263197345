"""`report`: one page about a run, its embeddings, their neighbours, and what they are worth on labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventvec.attribution import Influence
from eventvec.dataset import Dataset, repeated
from eventvec.errors import ConfigError, need, shown
from eventvec.evaluation import Evaluation, EvaluationOptions, LabelOptions, evaluate
from eventvec.evaluation.leaks import same_events
from eventvec.files import path_only
from eventvec.options import accepts, check_seed, gather
from eventvec.reporting.document import Nearby, PageTable, page, write_page
from eventvec.reporting.entity_columns import entity_columns
from eventvec.reporting.headline import headline
from eventvec.reporting.maps import FITTED, Map, map2d
from eventvec.reporting.neighbours import neighbour_rows, neighbours_of
from eventvec.reporting.overview import overview_of
from eventvec.runs import Run, check_run
from eventvec.searching.vector_index import learned_part
from eventvec.tables import Embeddings, check_output, read, until
from eventvec.tables.keys import texts
from eventvec.tables.label_times import labelled_histories
from eventvec.tables.sources import Tabular, kept

JOINED = ("key", "label_time", "inclusive")
"""The options that say how a table of labels is joined to the embeddings, for the colours of the map too."""
FEWEST = 4
"""The smallest number of embeddings of which a map is drawn."""


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A page, which `report` returns.

    Args:
        html: The page as text. It is self-contained: it loads nothing.
        verdict: The first sentence of the page.
        evaluations: The evaluations that it shows.

    Example:
        >>> Report("<!doctype html>", "Nothing can be told.", ())
        Report(0.0 MB: Nothing can be told.)
    """

    html: str
    verdict: str
    evaluations: tuple[Evaluation, ...]

    def __repr__(self) -> str:
        return f"Report({len(self.html) / 1e6:.1f} MB: {self.verdict})"

    def write(self, path: Path | str, *, overwrite: bool = False) -> Path:
        """Write the page to a file that only its owner can read, and return its path.

        The file appears whole or not at all. Missing folders above it are created.

        Args:
            path: The file. A page that eventvec wrote is replaced.
            overwrite: Whether another file may be replaced too.

        Raises:
            ConfigError: If the path is no place for a file, see `outputs.check_output`.
        """
        check_output(path_only(path), overwrite=overwrite)
        write_page(self.html, path)
        return Path(path)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, which ``eventvec report --json`` prints."""
        return {"verdict": self.verdict, "evaluations": [evaluation.to_dict() for evaluation in self.evaluations]}


@accepts(LabelOptions, EvaluationOptions)
def report(
    run: Run | None = None,
    data: Dataset | Tabular | None = None,
    *,
    embeddings: Embeddings | None = None,
    labels: Tabular | None = None,
    label: str | Sequence[str] = (),
    evaluations: Evaluation | Sequence[Evaluation] = (),
    drivers: Influence | None = None,
    tables: Sequence[PageTable] = (),
    title: str | None = None,
    lead: str = "",
    map_seed: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
    **options: Any,
) -> Report:
    """Return one self-contained page; each argument adds its sections.

    A run adds the course of its training. Data add lengths, rates, missing and unknown values, and histories beside
    the map. Embeddings, which a run and data make if they are not given, add a map of the entities and their nearest
    neighbours. Labels colour the map. A named label is evaluated too, as by `evaluate`, and if the report makes the
    embeddings, as of the times of the labels.

    Args:
        run: The run, from `fit` or `load`.
        data: The events, read or to be read by the schema of the run or of the embeddings.
        embeddings: The embeddings, from `embed` or `read_embeddings`.
        labels: A table with the key and further columns, as `read` takes tables. The map can be coloured by each.
        label: The columns of this table to evaluate, one after the other.
        evaluations: Evaluations that were made before, from `evaluate`.
        drivers: What drives the score of a label, from `influence`.
        tables: Further tables of the page, see `eventvec.reporting.PageTable`.
        title: The title of the page.
        lead: A sentence or two about the run, below the verdict.
        map_seed: Seed of the map and of the entities that are drawn as examples.
        progress: Called with the number of steps done, of all steps, and the name of the next one.
        options: The fields of `LabelOptions` and `EvaluationOptions`, for the evaluation of `label`.

    Raises:
        ConfigError: If there is nothing to show, an argument has another type or needs another one, an option is out of
            range, or an optional package is not installed.
        DataError: If the data are not those that were embedded, or the labels cannot be used.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [1, 1, 2, 2], "day": [1, 2, 1, 2], "paid": [0.5, 1.0, 2.0, 3.0]})
        >>> run = ev.fit("ocp", ev.read(events, key="card", time="day", numeric=["paid"]), epochs=1)
        >>> result = ev.report(run, title="My cards")
        >>> result.verdict[:44], "<h1>My cards</h1>" in result.html
        ('Nothing here says what the vectors are worth', True)
    """
    evaluations = [evaluations] if isinstance(evaluations, Evaluation) else list(evaluations)
    names = [label] if isinstance(label, str) else list(label)
    chosen = gather(options, LabelOptions, EvaluationOptions)
    driving = _drivers(drivers)
    _check(run, data, embeddings, labels, names, evaluations, map_seed, options)
    steps = [*(f"evaluating {name}" for name in names), "placing the entities", "writing"]

    def advance(step: str) -> None:
        if progress:
            progress(steps.index(step), len(steps), step)

    if data is not None and not isinstance(data, Dataset):
        data = run.read(data) if run else read(data, schema=embeddings.schema)  # type: ignore[union-attr]
    labels = None if labels is None else kept(labels)
    scored, histories = embeddings, data
    if embeddings is None and run is not None and isinstance(data, Dataset):
        embeddings = scored = run.embed(data)
        if names:
            others = [name for name in (chosen.group, chosen.weight) if name is not None]
            histories, _, _ = labelled_histories(data, labels, names, others, chosen.key, chosen)
            scored = embeddings if histories is data else run.embed(histories)
    mapped, events = (scored, histories) if scored is not None and repeated(scored.keys) else (embeddings, data)
    for name in names:
        advance(f"evaluating {name}")
        assert scored is not None
        evaluations.append(evaluate(scored, histories, labels, name, **options))
    advance("placing the entities")
    points, nearby, notes = None, None, tuple[str, ...]()
    if mapped is not None and len(mapped) >= FEWEST:
        points, nearby, notes = _map(mapped, events, labels, chosen, map_seed, [name for name, _, _ in driving])
    advance("writing")
    history = run.history if run else ()
    text = page(
        title or (f"Run {run.id}" if run else f"What predicts {evaluations[0].label}" if evaluations else "Embeddings"),
        lead,
        facts=_facts(run, embeddings),
        evaluations=evaluations,
        drivers=driving,
        tables=tables,
        points=points,
        nearby=nearby,
        history=history,
        overview=None if data is None else overview_of(data),
        notes=notes if run is None else (*run.notes, *notes),
    )
    return Report(text, headline(evaluations, history), tuple(evaluations))


def _drivers(influence: Any) -> list[tuple[str, float, float]]:
    """Return the name of each part that was left out, the change of the score, and the half-width of its interval."""
    if influence is None:
        return []
    if not isinstance(influence, Influence) or influence.measure in ("movement", "prediction"):
        raise ConfigError(
            "drivers must be the result of influence for a label, which says how a score changes: "
            "ev.influence(run, events, labels, label)"
        )
    rows = influence.rows
    return [(str(row["left out"]), float(row["change"]), float(row["high"] - row["low"]) / 2) for row in rows]


def _check(
    run: Any,
    data: Any,
    embeddings: Any,
    labels: Any,
    names: Sequence[Any],
    evaluations: Sequence[Any],
    seed: Any,
    options: dict[str, Any],
) -> None:
    """Refuse arguments of another type, and those that lack another argument."""
    check_seed("map_seed", seed, 31)
    if run is not None:
        check_run(run)
    if embeddings is not None and not isinstance(embeddings, Embeddings):
        kind = type(embeddings).__name__
        raise ConfigError(f"embeddings must be Embeddings, got {kind}; read them: ev.read_embeddings(path)")
    if wrong := next((each for each in evaluations if not isinstance(each, Evaluation)), None):
        raise ConfigError(f"evaluations must be results of evaluate, got {shown(wrong)}")
    if run is None and embeddings is None and not evaluations:
        raise ConfigError("there is nothing to report; give a run, embeddings (embeddings=) or evaluations")
    if data is not None and not isinstance(data, Dataset) and run is None and embeddings is None:
        raise ConfigError("a table of events needs the run or the embeddings, by whose schema it is read")
    if labels is not None and embeddings is None and (run is None or data is None):
        raise ConfigError("labels need the embeddings that they belong to: give events (--events) or embeddings")
    if names and labels is None:
        raise ConfigError("a label needs the table that has it; give labels= (--labels)")
    if unused := [name for name in options if not names and name not in JOINED]:
        raise ConfigError(f"{unused[0]} is for the evaluation of a label; name one: label= (--label)")
    need_packages()


def _map(
    z: Embeddings, data: Dataset | None, labels: Tabular | None, options: LabelOptions, seed: int, first: list[str]
) -> tuple[Map, Nearby, tuple[str, ...]]:
    """Return the map, the section of neighbours, and notes."""
    if data is not None and (time := z.metadata.get("until")) is not None and data.origin.until != time:
        data = until(data, time)
    events = None if data is None else same_events(data, z, z.moments)
    columns, notes = entity_columns(z, events, labels, options)
    names = texts(z.keys).alias(z.schema.key_out)
    points = Map(map2d(learned_part(z), seed), columns, names, map_caption(z))
    near = neighbours_of(z, events, seed, first)
    head, rows = neighbour_rows(near, names, z, events)
    return points, Nearby(near, PageTable("Typical entities and their nearest neighbours", head, rows)), notes


def need_packages() -> None:
    """Refuse to begin without the packages that a page needs.

    Raises:
        ConfigError: If plotly, jinja2 or openTSNE is not installed.
    """
    for module in ("plotly.offline", "jinja2", "openTSNE"):
        need(module, "viz")


def map_caption(z: Embeddings) -> str:
    """Return how to read the map of embeddings."""
    part = " of the learned part of the embedding" if "learned" in z.parts else " of the embedding"
    placed = (
        f" t-SNE placed {FITTED:,} of them, drawn by lot, and every other one lies between its nearest three of these."
    )
    return (
        f"Close points have similar histories. This is a t-SNE{part}: neighbourhoods are meaningful, the axes and the "
        f"distances between far groups are not.{placed if len(z) > FITTED else ''} The colours of numbers end at their "
        "2 % and 98 % quantiles."
    )


def _facts(run: Run | None, z: Embeddings | None) -> list[tuple[str, str]]:
    facts = []
    if run is not None:
        method, encoder = run.config.get("method", {}), run.config.get("encoder", {})
        facts.append(("method", str(method.get("name", type(run.method).__name__))))
        if "name" in encoder:
            facts.append(("encoder", f"{encoder['name']} {encoder.get('dim', '')}".strip()))
        facts.append(("training", f"{run.steps:,} steps, {run.seconds:,.0f} s"))
        facts.append(("stopped by", run.stopped))
        facts.append(("trained on", f"{run.usable:,} entities"))
        facts.append(("run", f"{run.id}, seed {run.info['seed']}"))
    if z is not None:
        facts.append(("embedded", f"{len(z):,} rows of {z.shape[1]} numbers"))
        facts += [] if run is not None or "run" not in z.metadata else [("run", str(z.metadata["run"]))]
    return facts
