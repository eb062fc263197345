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


SHARES = {1: "all labels", 0.25: "1/4", 0.0625: "1/16"}
"""The shares of the labels that `pairs` has."""
SUBSETS = ("all features", "the 30 words", "random subset")


def pairs(results: Results) -> list[Row]:
    """Return AUC, lead and clear leads by number of pairs and share of the labels, and below it the other subsets."""
    rows: dict[str, Row] = {}
    for row in results["pairs"]:
        share = SHARES[row["fraction"]]
        line = rows.setdefault(text(row["pairs"]), {"pairs": row["pairs"], "of 30 words": text(row["words found"], 1)})
        line[f"AUC, {share}"] = text(row["OCP subset"])
        line[f"lead, {share}"] = f"{text(row['OCP - all'], sign=True)} ± {text(row['interval'])}"
        line[f"clear, {share}"] = f"{row['draws ahead']}, {row['draws behind']}"
    for subset in SUBSETS:
        line = rows.setdefault(subset, {"pairs": subset, "of 30 words": ""})
        for row in results["pairs"]:
            share = SHARES[row["fraction"]]
            line |= {f"AUC, {share}": text(row[subset]), f"lead, {share}": "", f"clear, {share}": ""}
    return [*rows.values()]


def assumptions(results: Results) -> list[Row]:
    """Return how many features tell the order, and how they go together with the label."""
    return [
        {
            **{title: row[title] for title in ("data", "features", "tell the order", "change one way")},
            "label: first features": text(row["label, first features"]), "label: others": text(row["label, others"]),
            "rank correlation": text(row["rank correlation"], 2),
        }
        for row in results["assumptions"]
    ]  # fmt: skip


def signs(results: Results) -> list[Row]:
    """Return the share of positive weights beside the paper's, and the sizes of weights."""

    def between(row: Row, mean: str, least: str, most: str) -> str:
        return f"{text(row[mean], 2)} ({text(row[least], 2)} to {text(row[most], 2)})"

    return [
        {
            "data": row["data"], "selected": text(row["selected"], 0), "positive: paper": text(row["paper"], 2),
            "ours": between(row, "positive", "least", "most"), "difference": text(row["difference"], 2, sign=True),
            "shuffled": between(row, "shuffled", "least, shuffled", "most, shuffled"),
            "of the weight": text(row["of the weight"], 2), "size of +": text(row["size of +"]),
            "size of −": text(row["size of −"]),
        }
        for row in results["figure3b"]
    ]  # fmt: skip


def names(results: Results) -> list[Row]:
    """Return the features with the largest weights, and the most common ones that are never selected."""
    return [
        {"data": row["data"], "largest weights": row["largest"], "most common of those never selected": row["excluded"]}
        for row in results["figure3b"]
        if row["excluded"]
    ]


TABLES = {
    "figure2-1": lambda results: figure2(results, 1),
    "figure2-2": lambda results: figure2(results, 2),
    "figure2_loss": figure2_loss,
    "deviations": deviations,
    "population": population,
    "pairs": pairs,
    "assumptions": assumptions,
    "figure3b": signs,
    "figure3b-names": names,
}

CELLS = {
    "figure2": lambda: synthetic.figure2(False, "error", SIZES[:4]),
    "figure2_loss": lambda: synthetic.figure2(False, "loss", SIZES[:3]),
    "population": lambda: synthetic.population(False),
}

PICTURES = {
    "figure2.svg": lambda results: picture.figure2(results["figure2"]),
    "pairs.svg": lambda results: picture.number_of_pairs(results["pairs"]),
}
