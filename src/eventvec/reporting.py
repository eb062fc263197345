"""One self-contained HTML page about a run: what the embedding knows, how it was learned, where the entities lie.

The page takes plain data and knows nothing of a particular data set. It holds everything it shows, plotly.js included,
and a content security policy forbids it to load anything. Whatever comes from data is escaped, in charts too.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from eventvec.errors import DataError, need
from eventvec.evaluation import METRICS, Evaluation
from eventvec.evaluation.result import Scores

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

TEMPLATE = Path(__file__).with_name("reporting.html")

PALETTE = ("#3b82d6", "#e08a1e", "#2a9d74", "#c4588f", "#8a6fd1", "#b3a125", "#4cb3cf", "#c9543c")
"""Colours that can be told apart on white and on black, with colour blindness too (after Okabe and Ito)."""

OTHERS = "#9a8f80"
SYMBOLS = ("circle", "square", "diamond", "cross")
METRIC_NAMES = {
    "auroc": "AUROC",
    "average_precision": "average precision",
    "accuracy": "accuracy",
    "macro_f1": "macro F1",
    "r2": "R²",
    "mae": "mean absolute error",
}
MEANINGS = {
    "auroc": "AUROC is how often a random entity of the class is ranked above a random other one; 0.5 is guessing.",
    "accuracy": "Accuracy is the share of entities put into the right class.",
    "r2": "R² is the share of the label's variance that is explained; 0 is no better than the mean.",
}
LEGEND = {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0}
GUESSING = {"auroc": 0.5, "r2": 0.0}
LOWEST = {"r2": -0.25}
"""Where a chart's axis ends at the latest; a small share of labels can give scores far below."""


@dataclass(frozen=True)
class Table:
    """A table of the page.

    Args:
        title: heading above it.
        columns: heading of each column; the columns that hold only numbers are set to the right.
        rows: one cell per column.
        caption: a sentence below it.

    Example:
        >>> Table("Nearest", ["key", "distance"], [["a", 0.5], ["b", 0.7]]).right
        [False, True]
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""

    @property
    def right(self) -> list[bool]:
        """Whether each column holds only numbers."""
        return [all(isinstance(row[i], int | float) for row in self.rows) for i in range(len(self.columns))]


@dataclass(frozen=True, eq=False)
class Map:
    """Entities as points, which the reader can colour by one of several labels.

    Args:
        points: `(n, 2)`.
        colours: `n` rows, a column per label: numbers, text, or true and false; missing ones are drawn in grey.
        hover: `n` texts, shown when a point is pointed at; lines are separated by a line feed.
        caption: a sentence below it.

    Raises:
        DataError: there is no column, or not one row and one text per point.

    Example:
        >>> colours = pl.DataFrame({"churn": [True, False, None], "age": [31, None, 62]})
        >>> Map(np.zeros((3, 2)), colours, pl.Series(["a", "b", "c"])).colours.columns
        ['churn', 'age']
    """

    points: Array
    colours: pl.DataFrame
    hover: pl.Series
    caption: str = ""

    def __post_init__(self) -> None:
        n, width = len(self.points), self.colours.width
        if not width or {len(self.colours), len(self.hover)} != {n}:
            raise DataError(
                f"a map of {n:,} points got {len(self.colours):,} rows of {width} labels and {len(self.hover):,} texts"
                "; one row and one text per point are needed, and a label"
            )


def map2d(z: Array, seed: int = 0) -> Array:
    """Return `(n, 2)` coordinates in which near embeddings stay near: t-SNE, begun from the principal components.

    Columns are not standardised: distances are those of the embedding itself, as in a search for nearest entities.
    The same on every run; time grows with the square of the number of entities (half a minute for 4,000).
    Poličar, Stražar and Zupan 2024, "openTSNE".

    Args:
        z: `(n, dim)` embeddings, `n` of at least 4.
        seed: of the optimisation.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> xy = map2d(np.concatenate([rng.normal(size=(30, 8)), rng.normal(size=(30, 8)) + 9]))
        >>> bool((xy[:30].mean(0) - xy[30:].mean(0)).any()), xy.shape
        (True, (60, 2))
    """
    tsne = need("openTSNE", "viz").TSNE(
        perplexity=min(30, (len(z) - 1) / 3),
        initialization="pca",
        neighbors="exact",
        negative_gradient_method="bh",
        random_state=seed,
    )
    return np.asarray(tsne.fit(np.asarray(z, np.float64)))


def page(
    title: str,
    lead: str,
    *,
    facts: Iterable[tuple[str, str]] = (),
    evaluations: Sequence[Evaluation] = (),
    tables: Sequence[Table] = (),
    points: Map | None = None,
    history: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the page as HTML text, about 5 MB, nearly all of it plotly.js.

    Args:
        title: of the page.
        lead: a sentence or two below it.
        facts: names and values to show first.
        evaluations: one chart and one table each.
        tables: shown after the evaluations.
        points: the map.
        history: records of `train.Result.history`.

    Raises:
        ConfigError: plotly or jinja2 is not installed.

    Example:
        >>> text = page("Run <1>", "Learned in a minute.", facts=[("entities", "4,043")])
        >>> "<h1>Run &lt;1&gt;</h1>" in text, "<dd>4,043</dd>" in text
        (True, True)
    """
    found = [_section(e, f"chart-{i}") for i, e in enumerate(evaluations)]
    figures = {section["id"]: section.pop("figure") for section in found}
    if history:
        figures["training"] = _training_figure(history)
    environment = need("jinja2", "viz").Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    text: str = environment.from_string(TEMPLATE.read_text("utf-8")).render(
        title=title,
        lead=lead,
        facts=list(facts),
        evaluations=found,
        tables=tables,
        map=points,
        trained=_training_sentence(history),
        charts={"figures": figures, "map": _map_data(points) if points else None},
        plotly=need("plotly.offline", "viz").get_plotlyjs(),
    )
    return text


# Evaluations


def _section(e: Evaluation, name: str) -> dict[str, Any]:
    """Return what the template shows of an evaluation."""
    main, second = (METRIC_NAMES[metric] for metric in METRICS[e.task])
    of = f" · class “{e.positive}”" if e.task == "binary" and e.positive is not True else ""
    columns = list(dict.fromkeys(r.features for r in e.results))
    pairs = list(dict.fromkeys((d.a, d.b) for d in e.differences))
    rows = []
    for fraction, model in _cells(e):
        cells = [e.get(features, model, fraction) for features in columns]
        paired = {(d.a, d.b): d.main for d in e.differences if (d.fraction, d.model) == (fraction, model)}
        rows.append(
            {
                "labels": _share(fraction),
                "model": _model(model),
                "scores": [(_shown(r.main), _shown(r.secondary)) for r in cells],
                "differences": [(_shown(s, "+"), abs(s.mean) > s.interval) for s in map(paired.get, pairs) if s],
            }
        )
    protocol = "tested on entities the encoder never saw" if e.protocol == "holdout" else "cross-validation"
    return {
        "id": name,
        "title": f"{e.label}{of}",
        "subtitle": f"{main} · {e.n:,} labelled entities · {e.folds} folds, {protocol} · bars are 95 % intervals",
        "sentence": _sentence(e),
        "head": [*columns, *(f"{a} − {b}" for a, b in pairs)],
        "scores": f"Scores are {main}, the small ones {second}; differences are marked if their interval leaves out 0.",
        "rows": rows,
        "notes": e.notes,
        "height": 130 + 56 * len(rows),
        "figure": _scores_figure(e, columns),
    }


def _scores_figure(e: Evaluation, columns: Sequence[str]) -> dict[str, Any]:
    """Return dots with intervals: one line per model and share of labels, one colour per set of features."""
    cells = _cells(e)
    floor = _floor(e)
    traces = []
    for i, features in enumerate(columns):
        found = [e.get(features, model, fraction) for fraction, model in cells]
        shown = [(line, r.main) for line, r in enumerate(found) if r.main.mean >= floor]
        shift = 0.22 * (i - (len(columns) - 1) / 2)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": html.escape(features),
                "x": [s.mean for _, s in shown],
                "y": [line + shift for line, _ in shown],
                "error_x": {"type": "data", "array": [s.interval for _, s in shown], "thickness": 2, "width": 4},
                "marker": {"size": 11, "color": PALETTE[i % len(PALETTE)], "symbol": SYMBOLS[i % len(SYMBOLS)]},
                "hovertemplate": "%{x:.3f} ± %{error_x.array:.3f}",
            }
        )
    ends = [r.main.mean + side * r.main.interval for r in e.results if r.main.mean >= floor for side in (-1, 1)]
    low, high = max(min(ends), floor), min(max(ends), 1.0)
    margin = 0.06 * (high - low) + 1e-3
    names = [f"<b>{html.escape(_model(model))}</b><br>{_share(fraction)} of labels" for fraction, model in cells]
    guess = GUESSING.get(e.metric, -np.inf)
    lines = [{"type": "line", "x0": guess, "x1": guess, "y0": 0, "y1": 1, "yref": "paper", "line": {"dash": "dot"}}]
    layout = {
        "xaxis": {
            "title": {"text": f"{METRIC_NAMES[e.metric]}, higher is better"},
            "range": [low - margin, high + margin],
        },
        "yaxis": {
            "range": [len(cells) - 0.5, -0.5],
            "tickvals": list(range(len(cells))),
            "ticktext": names,
            "zeroline": False,
            "showgrid": False,
        },
        "shapes": lines if low - margin <= guess else [],
        "legend": LEGEND,
        "margin": {"l": 10, "r": 14, "t": 34, "b": 50},
    }
    return {"data": traces, "layout": layout}


def _sentence(e: Evaluation) -> str:
    """Return what the chart shows: the best model of each set of features at each share of labels."""
    parts = []
    for fraction in dict.fromkeys(r.fraction for r in e.results):
        best: dict[str, Any] = {}
        for r in e.results:
            if r.fraction == fraction and (r.features not in best or r.main.mean > best[r.features].main.mean):
                best[r.features] = r
        scores = ", ".join(f"{name} {_number(r.main.mean)} ({_model(r.model)})" for name, r in best.items())
        parts.append(f"The best of each with {_share(fraction)} of the labels: {scores}.")
    if any(r.main.mean < _floor(e) for r in e.results):
        parts.append(f"Scores below {_number(_floor(e))} are in the table only.")
    return " ".join([MEANINGS[e.metric], *parts])


def _floor(e: Evaluation) -> float:
    """Return below which score the chart shows none."""
    floor = LOWEST.get(e.metric, -np.inf)
    return floor if any(r.main.mean >= floor for r in e.results) else -np.inf


def _cells(e: Evaluation) -> list[tuple[float, str]]:
    return list(dict.fromkeys((r.fraction, r.model) for r in e.results))


def _shown(scores: Scores, sign: str = "") -> str:
    return f"{_number(scores.mean, sign)} ± {_number(scores.interval)}"


def _number(value: float, sign: str = "") -> str:
    return f"{value:{sign}.3f}".replace("-", "−")


def _share(fraction: float) -> str:
    return f"{100 * fraction:g} %"


def _model(name: str) -> str:
    return {"lightgbm": "boosted trees", "knn": "nearest neighbours"}.get(name, name.replace("_", " "))


# Training


def _training_figure(history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    epochs = [record["epoch"] for record in history]
    curves = [("training", "loss"), ("held-out entities", "validation")]
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": label,
            "x": epochs,
            "y": [record[key] for record in history],
            "line": {"color": PALETTE[i], "dash": ("solid", "dash")[i]},
            "marker": {"symbol": SYMBOLS[i]},
            "hovertemplate": "epoch %{x}: %{y:.4g}",
        }
        for i, (label, key) in enumerate(curves)
        if any(record[key] is not None for record in history)
    ]
    layout = {
        "xaxis": {"title": {"text": "epoch (pass over the entities)"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "loss per batch (no unit)"}},
        "legend": LEGEND,
        "margin": {"l": 60, "r": 14, "t": 34, "b": 50},
    }
    return {"data": traces, "layout": layout}


def _training_sentence(history: Sequence[Mapping[str, Any]]) -> str:
    if not history:
        return ""
    first, last = history[0], history[-1]
    held = [record["validation"] for record in history if record["validation"] is not None]
    best = f" On held-out entities the lowest is {min(held):.4g} and the last {held[-1]:.4g}." if held else ""
    return (
        f"The mean loss goes from {first['loss']:.4g} in epoch {first['epoch']} to {last['loss']:.4g} in epoch "
        f"{last['epoch']}.{best} Training took {last['seconds']:,.0f} s, at {last['events_per_second']:,} events per "
        "second."
    )


# The map


def _map_data(points: Map) -> dict[str, Any]:
    """Return what the page's script draws the map from."""
    xy = np.round(np.asarray(points.points, np.float64), 2)
    return {
        "x": xy[:, 0].tolist(),
        "y": xy[:, 1].tolist(),
        "hover": _escaped(points.hover).to_list(),
        "colours": [_colouring(column) for column in points.colours],
    }


def _colouring(column: pl.Series) -> dict[str, Any]:
    """Return the rows of each group, the most frequent first; or for numbers, the numbers and the ends of the scale."""
    if column.dtype.is_float():
        column = column.fill_nan(None)
    known = column.is_not_null()
    found: dict[str, Any] = {"name": html.escape(column.name), "missing": (~known).arg_true().to_list()}
    if column.dtype.is_numeric():
        values = column.filter(known).cast(pl.Float64)
        ends = [values.quantile(q, "nearest") for q in (0.02, 0.98)]
        return {**found, "rows": known.arg_true().to_list(), "values": values.to_list(), "ends": ends}
    if column.dtype == pl.Boolean:
        column = column.replace_strict({True: "yes", False: "no"}, return_dtype=pl.String)
    cells = pl.DataFrame({"name": _escaped(column.cast(pl.String)), "rows": np.arange(len(column))}).filter(known)
    groups = cells.group_by("name").agg("rows").sort(pl.col("rows").list.len(), "name", descending=[True, False])
    kept = len(groups) if len(groups) <= len(PALETTE) else len(PALETTE) - 1
    shown = [{**row, "colour": colour} for row, colour in zip(groups[:kept].to_dicts(), PALETTE[:kept], strict=True)]
    if kept < len(groups):
        rest = groups["rows"][kept:].explode().to_list()
        shown.append({"name": f"{len(groups) - kept} others", "rows": rest, "colour": OTHERS})
    return {**found, "groups": shown}


def _escaped(texts: pl.Series) -> pl.Series:
    """Return texts that plotly shows as they are; it reads tags and entities in them."""
    special = {character: html.escape(character) for character in "&<>\"'"}
    return texts.str.replace_many([*special, "\n"], [*special.values(), "<br>"])
