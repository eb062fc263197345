"""The table of the page, from the stored results: a row for each protocol, or for the mean of Raindrop's splits."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.protocols.problems import PROBLEMS, SPLITS
from experiments.stored_results import Results, Row, Table, text

METRICS = {"auroc": "AUROC", "average_precision": "average precision", "mae": "error in places"}
BEST = 3
"""The number of RelArena's own runs that are shown, of those with chosen settings."""


def measured(results: Results) -> list[Row]:
    """Return the published numbers and ours; the splits of Raindrop are shown by their mean."""
    parts: dict[str, dict[str, list[Row]]] = {}
    for row in results["table"]:
        parts.setdefault(row["protocol"], {}).setdefault(row["metric"], []).append(row)
    (mean,) = (name for name in parts if name.startswith("physionet2012, mean"))
    names = dict(zip((name for name in parts if name != mean), PROBLEMS, strict=True)) | {mean: "raindrop"}
    return [
        _line(f"`{names[part]}`" + (f", mean of five, {METRICS[metric]}" if part == mean else ""), rows)
        for part, of_metric in parts.items()
        if names[part] not in SPLITS
        for metric, rows in of_metric.items()
    ]


def _line(name: str, rows: Sequence[Row]) -> Row:
    published = [row for row in rows if row["seconds"] is None]
    trees, again, ours = (row for row in rows if row["seconds"] is not None)
    half = ours["deviation"] if ours["interval"] is None else ours["interval"]
    lead = ours["difference"].replace("-", "−")
    ahead = lead.startswith("+") and "±" in lead and float(lead.split(" ± ")[0]) > float(lead.split(" ± ")[1])
    bold = "**" if ahead else ""
    return {
        "protocol": name, "published": _published(published), "LightGBM": _score(trees), "two seeds": _score(again),
        "predictor": f"{bold}{_score(ours)} ± {text(half)}{bold}", "− LightGBM": f"{bold}{lead}{bold}",
        "log loss: LightGBM, predictor": ", ".join(text(row["log loss"]) for row in (trees, ours) if row["log loss"]),
        "seconds: LightGBM, predictor": ", ".join(text(round(row["seconds"])) for row in (trees, ours)),
    }  # fmt: skip


def _score(row: Row) -> str:
    return text(abs(row["score"]))


def _published(rows: Sequence[Row]) -> str:
    """Return names and numbers, the best first; of RelArena's runs the best with chosen settings, and one reference."""
    rows = sorted(rows, key=lambda row: -row["score"])
    runs = [row for row in rows if row["of"].startswith("RelArena: ")]
    tuned = [row for row in runs if ", tuned" in row["of"]][:BEST]
    others = [row for row in rows if row not in runs]
    if runs:
        shown = ", ".join(f"{row['of'].split(': ')[1].split(', ')[0]} {_score(row)}" for row in tuned)
        return f"RelArena, tuned: {shown}; {others[0]['of']} {_score(others[0])}, {others[0]['regime']}"
    return ", ".join(f"{row['of'].removeprefix('EBES: ')} {_score(row)}" for row in others)


TABLES: dict[str, Table] = {"measured": measured}
