"""Charts for plotly: scores of evaluations with intervals, and the training loss."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eventvec.evaluation import METRICS, Evaluation
from eventvec.evaluation.conclusion import deciding_cell
from eventvec.evaluation.part_sets import is_part
from eventvec.evaluation.result import Scores

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


def evaluation_section(e: Evaluation, name: str) -> dict[str, Any]:
    """Return what the template shows of an evaluation.

    Args:
        e: The evaluation.
        name: The id of its chart in the page.
    """
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
                "labels": _percent(fraction),
                "model": _model_name(model),
                "scores": [(_mean_and_interval(r.main), _mean_and_interval(r.secondary)) for r in results],
                "differences": [
                    (_mean_and_interval(s, "+"), abs(s.mean) > s.interval) for s in map(differences.get, pairs) if s
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


def scores_figure(e: Evaluation, columns: Sequence[str]) -> dict[str, Any]:
    """Return a figure of dots with intervals: one line per model and share of labels, one colour per feature set.

    Args:
        e: The evaluation.
        columns: The feature sets.
    """
    cells = _cells(e)
    lowest = _lowest_score(e)
    traces = []
    for i, features in enumerate(columns):
        results = [e.get(features, model, fraction) for fraction, model in cells]
        dots = [(line, r.main) for line, r in enumerate(results) if r.main.mean >= lowest]
        shift = min(0.22, 0.8 / len(columns)) * (i - (len(columns) - 1) / 2)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": html.escape(features),
                "x": [s.mean for _, s in dots],
                "y": [line + shift for line, _ in dots],
                "error_x": {"type": "data", "array": [s.interval for _, s in dots], "thickness": 2, "width": 4},
                "marker": {"size": 11, "color": PALETTE[i % len(PALETTE)], "symbol": SYMBOLS[_symbol(i)]},
                "hovertemplate": "%{x:.3f} ± %{error_x.array:.3f}",
            }
        )
    ends = [r.main.mean + side * r.main.interval for r in e.results if r.main.mean >= lowest for side in (-1, 1)]
    low, high = max(min(ends), lowest), min(max(ends), 1.0)
    margin = 0.06 * (high - low) + 1e-3
    names = [f"<b>{html.escape(_model_name(model))}</b><br>{_percent(fraction)} of labels" for fraction, model in cells]
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


def shares_figure(e: Evaluation) -> dict[str, Any] | None:
    """Return a figure of the score against the share of the labels, with intervals; None with one share.

    The model is that of the verdict. Parts of the embedding are left out, so that the lines can be told apart.

    Args:
        e: The evaluation.
    """
    model, _ = deciding_cell(e)
    fractions = sorted({r.fraction for r in e.results})
    if len(fractions) < 2:
        return None
    traces = []
    for i, features in enumerate(dict.fromkeys(r.features for r in e.results if not is_part(r.features))):
        dots = [r for r in e.results if (r.features, r.model) == (features, model) and r.main.mean >= _lowest_score(e)]
        dots.sort(key=lambda r: r.fraction)
        error = {"type": "data", "array": [r.main.interval for r in dots], "thickness": 1.5, "width": 3}
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": html.escape(features),
                "x": [100 * r.fraction for r in dots],
                "y": [r.main.mean for r in dots],
                "error_y": error,
                "line": {"color": PALETTE[i % len(PALETTE)], "width": 2},
                "marker": {"symbol": SYMBOLS[_symbol(i)], "size": 8},
                "hovertemplate": "%{x:.3g} % of the labels: %{y:.3f} ± %{error_y.array:.3f}",
            }
        )
    ticks = {"tickvals": [100 * f for f in fractions], "ticktext": [_percent(f) for f in fractions]}
    layout = {
        "xaxis": {"type": "log", "title": {"text": "share of the training labels"}, **ticks},
        "yaxis": {"title": {"text": METRIC_NAMES[e.metric]}},
        "legend": LEGEND,
        "margin": {"l": 60, "r": 14, "t": 34, "b": 50},
    }
    return {"data": traces, "layout": layout}


def drivers_figure(rows: Sequence[tuple[str, float, float]]) -> dict[str, Any]:
    """Return a figure of bars with intervals: how much the score changes without a field or a period.

    Args:
        rows: What is left out, the change of the score, and the half-width of its 95 % interval.

    Example:
        >>> figure = drivers_figure([("amount", -0.02, 0.01), ("the last 30 days", -0.05, 0.02)])
        >>> figure["data"][0]["x"], figure["layout"]["yaxis"]["ticktext"][0]
        ([-0.05, -0.02], 'the last 30 days')
    """
    ordered = sorted(rows, key=lambda row: row[1])
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": [change for _, change, _ in ordered],
        "y": list(range(len(ordered))),
        "error_x": {"type": "data", "array": [interval for _, _, interval in ordered], "thickness": 2, "width": 4},
        "marker": {"color": [PALETTE[0] if abs(c) > i else NOT_CLEAR for _, c, i in ordered]},
        "hovertemplate": "%{x:+.3f} ± %{error_x.array:.3f}<extra></extra>",
    }
    names = {"tickvals": trace["y"], "ticktext": [html.escape(name) for name, _, _ in ordered]}
    layout = {
        "xaxis": {"title": {"text": "change of the score when it is left out"}},
        "yaxis": {**names, "range": [len(ordered) - 0.5, -0.5], "showgrid": False, "zeroline": False},
        "showlegend": False,
        "margin": {"l": 10, "r": 14, "t": 14, "b": 50},
    }
    return {"data": [trace], "layout": layout}


def evaluation_sentence(e: Evaluation) -> str:
    """Return what the chart shows: the best model of each feature set at each share of labels."""
    sentences = [MEANINGS[e.metric]]
    for fraction in dict.fromkeys(r.fraction for r in e.results):
        best: dict[str, Any] = {}
        for r in e.results:
            if is_part(r.features):
                continue
            if r.fraction == fraction and (r.features not in best or r.main.mean > best[r.features].main.mean):
                best[r.features] = r
        scores = ", ".join(f"{name} {_number(r.main.mean)} ({_model_name(r.model)})" for name, r in best.items())
        sentences.append(f"The best scores with {_percent(fraction)} of the labels are: {scores}.")
    if any(r.main.mean < _lowest_score(e) for r in e.results):
        sentences.append(f"Scores below {_number(_lowest_score(e))} are shown in the table only.")
    return " ".join(sentences)


def training_figure(history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a figure of the training loss by epoch, and of the validation loss if there is one.

    Args:
        history: One record per epoch, as in `Run.history`.
    """
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


def training_sentence(history: Sequence[Mapping[str, Any]]) -> str:
    """Return how far the loss falls and how long training takes, or an empty string without a history.

    Args:
        history: One record per epoch, as in `Run.history`.
    """
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
    """Return epoch, loss, validation loss and seconds of at most about `most` epochs, the last one included.

    Args:
        history: One record per epoch, as in `Run.history`.
        most: The number of rows above which epochs are passed over, at equal distances.
    """
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


def _mean_and_interval(scores: Scores, sign: str = "") -> str:
    return f"{_number(scores.mean, sign)} ± {_number(scores.interval)}"


def _number(value: float, sign: str = "") -> str:
    return f"{value:{sign}.3f}".replace("-", "−")


def _percent(fraction: float) -> str:
    return f"{100 * fraction:g} %"


def _model_name(name: str) -> str:
    return {"lightgbm": "boosted trees", "knn": "nearest neighbours"}.get(name, name.replace("_", " "))
