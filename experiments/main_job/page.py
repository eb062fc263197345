"""The tables of the page, from the stored results of all labels: scores, and their paired differences."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.stored_results import Results, Row, Table, text

DATA = {
    "flights": "flights, built in 2002 or later ({n} aircraft, AUROC), 20 epochs",
    "churn": "online_retail, churn ({n} customers, AUROC), 30 epochs",
    "death": "physionet2012 a, death ({n} stays, AUROC), 10 epochs",
    "order": "cmapss, order of two windows of an unseen engine ({n} engines, AUROC)",
}
NAMES = {"lightgbm": "boosting", "logistic_regression": "logistic", "logits": "OCP's own logits", "ocp": ""}


def scores(results: Results) -> list[Row]:
    """Return the scores of sets of features and models, and how far they are from the reference."""
    return [row for file in DATA for row in _scores(results, file)]


def _scores(results: Results, file: str) -> Iterator[Row]:
    above: Row = {}
    for row in results[file]:
        if " − " not in row["features"]:
            name, features = DATA[file].format(n=text(row["n"])), NAMES.get(row["features"], row["features"])
            yield {
                "data, label": "" if name == above.get("data") else name,
                "features": "" if features == above.get("features") else features, "model": NAMES[row["model"]],
                "reference": text(row["reference"]), "ours": _with_interval(row),
                "difference": row["difference"].replace("-", "−"),
            }  # fmt: skip
            above = {"data": name, "features": features}


def differences(results: Results) -> list[Row]:
    """Return the paired differences between sets of features, a row for each label and model."""
    rows: dict[tuple[str, str], Row] = {}
    for file in ("flights", "churn", "death"):
        for row in results[file]:
            if " − " in row["features"]:
                line = rows.setdefault((file, row["model"]), {"data": file, "model": NAMES[row["model"]]})
                line[row["features"]] = _with_interval(row, sign=True)
    return [*rows.values()]


def _with_interval(row: Row, sign: bool = False) -> str:
    return f"{text(row['ours'], sign=sign)} ± {text(row['interval'])}"


TABLES: dict[str, Table] = {"scores": scores, "differences": differences}
