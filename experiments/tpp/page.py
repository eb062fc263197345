"""The tables of the page, from the stored results."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.stored_results import Results, Row, text

SHORT = {"stackoverflow_badges": "badges", "usgs_earthquakes": "earthquakes", "physionet2012": "stays"}


def _readers(rows: Sequence[Row], second: str) -> list[Row]:
    """Return a line per set and reader: the scores with one kind of descriptions, then with the other.

    Args:
        rows: The rows of a command.
        second: What the `reworded` descriptions are.
    """
    lines = list[Row]()
    for data, name in SHORT.items():
        by_wording = {
            wording: {row["model"]: row for row in rows if row["data"] == data and row["wording"] == wording}
            for wording in ("test", "reworded")
        }
        chance = next(iter(by_wording["test"].values()))
        lines.append({
            "": f"**{name}**: chance, {chance['descriptions']} descriptions among {chance['corpus']} histories",
            "MRR": text(chance["chance MRR"]), "R@5": text(chance["chance recall"]),
            "minus the better bag": "", f"{second}: MRR": text(chance["chance MRR"]), "minus the better bag ": "",
        })  # fmt: skip
        for model in {**by_wording["test"], **by_wording["reworded"]}:
            first, other = (by_wording[wording].get(model, {}) for wording in by_wording)
            compared = "bag" not in model and "reader" not in model
            lines.append({
                "": model, "MRR": _score(first, "MRR"), "R@5": _score(first, "recall@5"),
                "minus the better bag": _score(first, "minus the better bag") if compared else "",
                f"{second}: MRR": _score(other, "MRR"),
                "minus the better bag ": _score(other, "minus the better bag") if compared else "",
            })  # fmt: skip
    return lines


def _score(row: Row, name: str) -> str:
    """Return a score with its interval; a difference whose interval is above 0 is bold."""
    if name not in row:
        return ""
    value, half = row[name], row[f"± {name}"]
    written = f"{text(value)} ± {text(half)}"
    return f"**{written}**" if name.startswith("minus") and value > half else written


def others(results: Results) -> list[Row]:
    """Return the scores with descriptions by another author, and with ours of the same histories."""
    return _readers(results["others"], "ours of the same histories")


def untrained(results: Results) -> list[Row]:
    """Return the scores with our descriptions, and with other wordings of them."""
    return _readers(results["untrained"], "other wordings")


def describe(results: Results) -> list[Row]:
    """Return what the descriptions of each set are like, and how well readers of them search."""
    sets = {name: [row for row in results["describe"] if row["data"] == data] for data, name in SHORT.items()}
    first = {name: rows[0] for name, rows in sets.items()}
    lines: dict[str, dict[str, str]] = {
        "sequences, of them in the test part": {n: f"{r['sequences']:,}, {r['corpus']}" for n, r in first.items()},
        "sentences per description, mean": {n: text(r["sentences"], 2) for n, r in first.items()},
        "different descriptions": {n: text(r["distinct"]) for n, r in first.items()},
        "descriptions that are true of their history": {n: f"{100 * r['true']:g} %" for n, r in first.items()},
        "share of other histories that a description fits, median (mean)": {
            n: f"{text(100 * r['fits_median'], 1)} % ({text(100 * r['fits_mean'], 1)} %)" for n, r in first.items()
        },
    }
    for place, reader in enumerate(row["model"] for row in next(iter(sets.values()))):
        of_reader = {name: rows[place] for name, rows in sets.items()}
        lines[f"{reader}, MRR (Recall@5)"] = {
            n: f"{text(r['MRR'])} ({text(r['recall@5'])})" for n, r in of_reader.items()
        }
    lines["chance, MRR (Recall@5)"] = {
        n: f"{text(r['chance MRR'])} ({text(r['chance recall'])})" for n, r in first.items()
    }
    return [{"test part": title, **of_sets} for title, of_sets in lines.items()]


def ablations(results: Results) -> list[Row]:
    """Return the rows of Tables 8 to 11 below one another."""
    return [row for number in range(8, 12) for row in results[f"table{number}"]]


TABLES = {"describe": describe, "others": others, "untrained": untrained, "tables8-11": ablations}
