"""Charts for plotly: scores of evaluations with intervals, and the training loss."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from eventvec.evaluation import METRICS, Evaluation
from eventvec.evaluation.conclusion import deciding_cell
from eventvec.evaluation.part_sets import is_part
from eventvec.evaluation.result import percent

Figure: TypeAlias = dict[str, Any]

PALETTE = ("#3b82d6", "#e08a1e", "#2a9d74", "#c4588f", "#8a6fd1", "#b3a125", "#4cb3cf", "#c9543c")
"""Colours that can be told apart on white and on black, also with colour blindness (after Okabe and Ito)."""

LEGEND = {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0}
SYMBOLS = ("circle", "square", "diamond", "cross")
METRIC_NAMES = {
    "auroc": "AUROC",
    "average_precision": "average precision",
    "accuracy": "accuracy",
    "macro_f1": "macro F1",
    "r2": "R²",
    "mae": "mean absolute error",
    "macro_auroc": "mean AUROC of the labels",
    "macro_average_precision": "mean average precision of the labels",
}
MEANINGS = {
    "auroc": "AUROC is the probability that a random entity of the class ranks above a random other one; 0.5 is "
    "guessing.",
    "accuracy": "Accuracy is the share of entities whose class is predicted correctly.",
    "r2": "R² is the share of the label's variance that is explained; 0 is no better than the mean.",
    "macro_auroc": "The AUROC of a label is the probability that a random entity of the class ranks above a random "
    "other one; 0.5 is guessing.",
}
PROTOCOLS = {
    "cross-validation": "cross-validation",
    "holdout": "tested on entities the encoder never saw",
    "date": "tested after a date",
}
NOT_CLEAR = "#9aa5b4"
"""The colour of a bar whose interval contains 0."""
GUESSING = {"auroc": 0.5, "macro_auroc": 0.5, "r2": 0.0}
LOWEST = {"r2": -0.25}
"""Lower end of a chart's axis; with few labels, scores can be far below it."""


@dataclass(frozen=True, eq=False)
class Chart:
    """A plotly figure, the sentence below it, its height in pixels and its heading; `id` is its name in the page."""

    id: str
    figure: Figure
    caption: str
    height: int = 320
    title: str = ""


def figure(traces: Sequence[Any], x: Mapping[str, Any], y: Mapping[str, Any], left: int = 60, **layout: Any) -> Figure:
    """Return a plotly figure of traces with two axes, a legend above it, and a margin on the left in pixels."""
    margin = {"l": left, "r": 14, "t": 34, "b": 50}
    return {"data": list(traces), "layout": {"xaxis": x, "yaxis": y, "legend": LEGEND, "margin": margin, **layout}}


def titled(text: str, **axis: Any) -> dict[str, Any]:
    """Return an axis with a title."""
    return {"title": {"text": text}, **axis}


def lines_of(names: Sequence[str]) -> dict[str, Any]:
    """Return a vertical axis on which each name has a line, the first on top."""
    ticks = {"tickvals": list(range(len(names))), "ticktext": [html.escape(name) for name in names]}
    return {**ticks, "range": [len(names) - 0.5, -0.5], "zeroline": False, "showgrid": False}


def error_bars(array: Sequence[float | None], **more: Any) -> dict[str, Any]:
    """Return the intervals of a trace's dots."""
    return {"type": "data", "array": array, "thickness": 2, "width": 4, **more}


def dots(name: str, x: Sequence[Any], y: Sequence[Any], shown: str, mode: str = "markers", **more: Any) -> Figure:
    """Return a trace of dots, whose name is escaped; `shown` is the text under the pointer."""
    trace = {"type": "scatter", "mode": mode, "name": html.escape(name), "x": x, "y": y}
    return {**trace, "hovertemplate": shown, **more}


def bars(x: Sequence[Any], y: Sequence[Any], marker: Mapping[str, Any], shown: str, **more: Any) -> Figure:
    """Return a trace of bars; `shown` is the text under the pointer."""
    return {"type": "bar", "x": x, "y": y, "marker": marker, "hovertemplate": shown, **more}


def evaluation_section(e: Evaluation, name: str) -> dict[str, Any]:
    """Return what the template shows of an evaluation, whose chart has the id `name`."""
    main, second = (METRIC_NAMES[metric] for metric in METRICS[e.task])
    positive = f" · class “{e.positive}”" if e.task == "binary" and e.positive is not True else ""
    columns = list(dict.fromkeys(r.features for r in e.results))
    pairs = list(dict.fromkeys((d.a, d.b) for d in e.shown_differences))
    rows = []
    for fraction, model in _cells(e):
        results = [e.get(features, model, fraction) for features in columns]
        differences = {(d.a, d.b): d.main for d in e.differences if (d.fraction, d.model) == (fraction, model)}
        rows.append(
            {
                "labels": percent(fraction),
                "model": _model_name(model),
                "scores": [(_minus(r.main.text()), _minus(r.secondary.text())) for r in results],
                "differences": [
                    (_minus(s.text("+")), abs(s.mean) > s.interval) for s in map(differences.get, pairs) if s
                ],
            }
        )
    return {
        "id": name,
        "title": f"{e.label}{positive}",
        "subtitle": f"{main} · {e.rows_text} · {e.folds} folds, {PROTOCOLS[e.protocol]} · bars are 95 % intervals",
        "verdict": e.verdict,
        "sentence": evaluation_sentence(e),
        "head": [*columns, *(f"{a} − {b}" for a, b in pairs)],
        "scores": f"The upper score is {main}, the lower one {second}. A difference is highlighted if its interval "
        "does not contain 0.",
        "rows": rows,
        "notes": e.notes,
        "height": 130 + max(56, 16 * len(columns)) * len(rows),
        "figure": scores_figure(e, columns),
        "shares": shares_figure(e),
        "shares_title": f"{e.label}: {main} by the share of the labels, {_model_name(deciding_cell(e)[0])}",
    }


def scores_figure(e: Evaluation, columns: Sequence[str]) -> Figure:
    """Return a figure of dots with intervals: one line per model and share of labels, one colour per feature set."""
    cells, lowest = _cells(e), _lowest_score(e)
    traces = []
    for i, features in enumerate(columns):
        results = [e.get(features, model, fraction) for fraction, model in cells]
        scored = [(line, r.main) for line, r in enumerate(results) if r.main.mean >= lowest]
        shift = min(0.22, 0.8 / len(columns)) * (i - (len(columns) - 1) / 2)
        x, y = [s.mean for _, s in scored], [line + shift for line, _ in scored]
        intervals = error_bars([s.interval for _, s in scored])
        marker = {"size": 11, "color": PALETTE[i % len(PALETTE)], "symbol": SYMBOLS[_symbol(i)]}
        traces.append(dots(features, x, y, "%{x:.3f} ± %{error_x.array:.3f}", error_x=intervals, marker=marker))
    ends = [r.main.mean + side * r.main.interval for r in e.results if r.main.mean >= lowest for side in (-1, 1)]
    low, high = max(min(ends), lowest), min(max(ends), 1.0)
    margin = 0.06 * (high - low) + 1e-3
    names = [f"<b>{html.escape(_model_name(model))}</b><br>{percent(fraction)} of labels" for fraction, model in cells]
    guess = GUESSING.get(e.metric, -np.inf)
    line = {"type": "line", "x0": guess, "x1": guess, "y0": 0, "y1": 1, "yref": "paper", "line": {"dash": "dot"}}
    x_axis = titled(f"{METRIC_NAMES[e.metric]}, higher is better", range=[low - margin, high + margin])
    y_axis = {**lines_of(names), "ticktext": names}
    return figure(traces, x_axis, y_axis, left=10, shapes=[line] if low - margin <= guess else [])


def shares_figure(e: Evaluation) -> Figure | None:
    """Return a figure of the score against the share of the labels, with intervals; None with one share.

    The model is that of the verdict. Parts of the embedding are left out, so that the lines can be told apart.
    """
    model, _ = deciding_cell(e)
    fractions = sorted({r.fraction for r in e.results})
    if len(fractions) < 2:
        return None
    traces = []
    for i, features in enumerate(dict.fromkeys(r.features for r in e.results if not is_part(r.features))):
        scored = [r for r in e.results if (r.features, r.model) == (features, model)]
        scored = sorted((r for r in scored if r.main.mean >= _lowest_score(e)), key=lambda r: r.fraction)
        x, y = [100 * r.fraction for r in scored], [r.main.mean for r in scored]
        shown = "%{x:.3g} % of the labels: %{y:.3f} ± %{error_y.array:.3f}"
        look = {"line": {"color": PALETTE[i % len(PALETTE)]}, "marker": {"symbol": SYMBOLS[_symbol(i)], "size": 8}}
        intervals = error_bars([r.main.interval for r in scored])
        traces.append(dots(features, x, y, shown, "lines+markers", error_y=intervals, **look))
    ticks = {"tickvals": [100 * f for f in fractions], "ticktext": [percent(f) for f in fractions]}
    x_axis = titled("share of the training labels", type="log", **ticks)
    return figure(traces, x_axis, titled(METRIC_NAMES[e.metric]))


def drivers_figure(rows: Sequence[tuple[str, float, float]]) -> Figure:
    """Return a figure of bars with intervals: how much the score changes without each field or period.

    A row has what is left out, the change of the score, and the half-width of its 95 % interval.
    """
    names, changes, intervals = zip(*sorted(rows, key=lambda row: row[1]), strict=True)
    marker = {"color": [PALETTE[0] if abs(c) > i else NOT_CLEAR for c, i in zip(changes, intervals, strict=True)]}
    shown = "%{x:+.3f} ± %{error_x.array:.3f}<extra></extra>"
    places, halves = list(range(len(names))), error_bars(list(intervals))
    trace = bars(list(changes), places, marker, shown, orientation="h", error_x=halves)
    x_axis = titled("change of the score when it is left out")
    return figure([trace], x_axis, lines_of(names), left=10, showlegend=False)


def evaluation_sentence(e: Evaluation) -> str:
    """Return what the chart shows: the best model of each feature set at each share of labels."""
    sentences = [MEANINGS[e.metric]]
    for fraction in dict.fromkeys(r.fraction for r in e.results):
        cells = [r for r in e.results if r.fraction == fraction and not is_part(r.features)]
        names = dict.fromkeys(r.features for r in cells)
        best = [max((r for r in cells if r.features == name), key=lambda r: r.main.mean) for name in names]
        scores = ", ".join(f"{r.features} {_minus(f'{r.main.mean:.3f}')} ({_model_name(r.model)})" for r in best)
        sentences.append(f"The best scores with {percent(fraction)} of the labels are: {scores}.")
    if any(r.main.mean < _lowest_score(e) for r in e.results):
        sentences.append(f"Scores below {_minus(f'{_lowest_score(e):.3f}')} are shown in the table only.")
    return " ".join(sentences)


def training_figure(history: Sequence[Mapping[str, Any]]) -> Figure:
    """Return a figure of the training loss by epoch, and of the validation loss if there is one, of `Run.history`."""
    epochs = [record["epoch"] for record in history]
    traces = []
    for i, (label, key) in enumerate([("training", "loss"), ("held-out entities", "validation")]):
        look = {"line": {"color": PALETTE[i], "dash": ("solid", "dash")[i]}, "marker": {"symbol": SYMBOLS[i]}}
        losses = [record[key] for record in history]
        if any(loss is not None for loss in losses):
            traces.append(dots(label, epochs, losses, "epoch %{x}: %{y:.4g}", "lines+markers", **look))
    x_axis = titled("epoch (pass over the entities)", rangemode="tozero")
    return figure(traces, x_axis, titled("loss per batch (no unit)"))


def training_sentence(history: Sequence[Mapping[str, Any]]) -> str:
    """Return how far the loss falls and how long training takes, or an empty string without a history."""
    if not history:
        return ""
    first, last = history[0], history[-1]
    losses = [record["validation"] for record in history if record["validation"] is not None]
    lowest = f" On held-out entities, the lowest is {min(losses):.4g} and the last {losses[-1]:.4g}." if losses else ""
    return (
        f"The mean loss goes from {first['loss']:.4g} in epoch {first['epoch']} to {last['loss']:.4g} in epoch "
        f"{last['epoch']}.{lowest} Training took {last['seconds']:,.0f} s, at "
        f"{last['events_per_second']:,} events per second."
    )


def training_rows(history: Sequence[Mapping[str, Any]], most: int = 30) -> list[list[str]]:
    """Return epoch, loss, validation loss and seconds of about `most` epochs, at equal distances, with the last."""
    step = -(-len(history) // most) or 1
    rows = [history[place] for place in sorted({*range(0, len(history), step), len(history) - 1}) if history]
    losses = [[f"{r[name]:.4g}" if r[name] is not None else "" for name in ("loss", "validation")] for r in rows]
    return [[f"{r['epoch']:,}", *pair, f"{r['seconds']:,.0f}"] for r, pair in zip(rows, losses, strict=True)]


def _lowest_score(e: Evaluation) -> float:
    """Return the score below which the chart shows no dots."""
    lowest = LOWEST.get(e.metric, -np.inf)
    return lowest if any(r.main.mean >= lowest for r in e.results) else -np.inf


def _symbol(i: int) -> int:
    """Return the place of the symbol of a set of features, another one where the colours begin again."""
    return (i + i // len(PALETTE)) % len(SYMBOLS)


def _cells(e: Evaluation) -> list[tuple[float, str]]:
    return list(dict.fromkeys((r.fraction, r.model) for r in e.results))


def _minus(text: str) -> str:
    """Return the text of a number with the sign that is set as long as a plus."""
    return text.replace("-", "−")


def _model_name(name: str) -> str:
    return {"lightgbm": "boosted trees", "knn": "nearest neighbours"}.get(name, name.replace("_", " "))
