"""The tables of the page, from the stored results."""

from __future__ import annotations

from experiments.stored_results import Results, Row, text

LABELS = {
    "cmapss": "cycles that an engine has left",
    "races": "mean position of a driver",
    "flights": "mean delay of an aircraft, minutes",
    "online_retail": "spending of a customer, pounds",
}
SHARES = (0.8, 0.9, 0.95)
OTHER, LATER = "other entities", "later"


def coverage(results: Results) -> list[Row]:
    """Return the share inside for each table, of other entities and of later rows."""
    return [_line(results, name, tested) for tested in (OTHER, LATER) for name in LABELS]


def _line(results: Results, name: str, tested: str) -> Row:
    rows = [row for row in results[f"coverage-{name}"] if row["tested on"] == tested and row["scale"] == "scaled"]
    inside = {f"{100 * row['coverage']:.0f} % promised": f"{text(row['inside'])} ± {text(row['±'])}" for row in rows}
    about = {"table": name, "tested on": tested, "rows": rows[0]["rows"], "entities": rows[0]["entities"]}
    return {**about, **inside}


def widths(results: Results) -> list[Row]:
    """Return the mean width and the score of intervals of 90 %, with scales and with one scale, on other entities."""
    lines = list[Row]()
    for name, label in LABELS.items():
        chosen = {
            row["scale"]: row
            for row in results[f"coverage-{name}"]
            if row["tested on"] == OTHER and row["coverage"] == 0.9
        }
        scaled, constant = chosen["scaled"], chosen["constant"]
        lines.append(
            {
                "table": name, "label": label, "mean width": f"{scaled['width']:,.1f}",
                "with one scale": f"{constant['width']:,.1f}", "score": f"{scaled['score']:,.1f}",
                "score with one scale": f"{constant['score']:,.1f}",
                "ratio of scores": text(scaled["score"] / constant["score"], 2),
            }
        )  # fmt: skip
    return lines


def scales(results: Results) -> list[Row]:
    """Return for each candidate the interval scores relative to one scale for all, and the share inside, of 90 %."""
    rows = results["scales"]
    tables = list(dict.fromkeys(row["table"] for row in rows))
    of_table = {name: {row["scale"]: row for row in rows if row["table"] == name} for name in tables}
    lines = list[Row]()
    for scale in of_table[tables[0]]:
        line: Row = {"scale": scale}
        for name, tried in of_table.items():
            row, constant = tried[scale], tried["constant"]
            line[f"{name}: score of 80, 90, 95 %"] = ", ".join(
                text(row[f"{100 * share:.0f} % score"] / constant[f"{100 * share:.0f} % score"], 2) for share in SHARES
            )
            line[f"{name}: inside, width of 90 %"] = f"{text(row['90 % inside'])}, {row['90 % width']:,.1f}"
        lines.append(line)
    return lines


TABLES = {"coverage": coverage, "widths": widths, "scales": scales}
