"""The tables of the page, from the stored results, and the cells that a test computes anew."""

from __future__ import annotations

from experiments.order import picture, synthetic
from experiments.order.reference import SIZES
from experiments.stored_results import Results, Row, text


def _share(value: float) -> str:
    return text(round(value, 2) or 0, 2).removesuffix(".00") if value < 1 else "1"


def figure2(results: Results, distribution: int) -> list[Row]:
    """Return the mean number of recovered features by number of pairs, with the share of data sets in which it is 4."""
    rows: dict[int, Row] = {}
    for row in results["figure2"]:
        if row["distribution"] == distribution:
            name = f"D{distribution} {picture.NAMES[row['method']]}"
            line = rows.setdefault(row["m"], {"pairs": row["m"]})
            line[f"{name} ours"] = f"{row['recovered']:.2f} ({_share(row['all'])})"
            line[f"{name} known"] = f"{row['recovered known']:.2f} ({_share(row['all known'])})"
    return [*rows.values()]


def figure2_loss(results: Results) -> list[Row]:
    """Return the mean number of recovered features with selection by cross-entropy, above the known one."""
    rows: dict[str, Row] = {}
    for row in results["figure2_loss"]:
        name = f"D{row['distribution']} {picture.NAMES[row['method']]}"
        for title, column in ((name, "recovered"), (f"{name}, known", "recovered known")):
            rows.setdefault(title, {"": title})[text(row["m"])] = f"{row[column]:.2f}"
    return [*rows.values()]


def deviations(results: Results) -> list[Row]:
    """Return how many cells of Figure 2 there are, and the largest difference in standard errors, by selecting loss."""
    rows = list[Row]()
    for name, loss in (("figure2", "0-1 error"), ("figure2_loss", "cross-entropy")):
        away = [abs(row["difference"]) / row["standard error"] if row["difference"] else 0.0 for row in results[name]]
        rows.append({
            "selected by": loss, "cells": len(away), "within three standard errors": sum(each <= 3 for each in away),
            "largest difference, standard errors": text(max(away), 1),
        })  # fmt: skip
    return rows


def population(results: Results) -> list[Row]:
    """Return the errors on many pairs and exactly, and the pairs that are enough by the bound and in Figure 2."""
    return [
        {
            "": f"D{row['distribution']} {picture.NAMES[row['method']]}", "S": text(row["S"], 4),
            "S, exact": text(row["S exact"], 4), "S, known": text(row["S known"]),
            "best other": text(row["best other"], 4), "its features": row["its features"],
            "best other, exact": text(row["best other exact"], 4), "its features, exact": row["its features exact"],
            "best other, known": text(row["best other known"], 4),
            "gap ε0": text(row["gap"], 4), "pairs by the bound": row["bound"], "pairs in Figure 2": row["enough"],
        }
        for row in results["population"]
    ]  # fmt: skip


TABLES = {
    "figure2-1": lambda results: figure2(results, 1),
    "figure2-2": lambda results: figure2(results, 2),
    "figure2_loss": figure2_loss,
    "deviations": deviations,
    "population": population,
}

CELLS = {
    "figure2": lambda: synthetic.figure2(False, "error", SIZES[:4]),
    "figure2_loss": lambda: synthetic.figure2(False, "loss", SIZES[:3]),
    "population": lambda: synthetic.population(False),
}

PICTURES = {"figure2.svg": lambda results: picture.figure2(results["figure2"])}
