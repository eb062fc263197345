"""The tables of the page that are rendered from stored results."""

from __future__ import annotations

from experiments.coles.__main__ import COUNTS, KINDS
from experiments.stored_results import Results, Row, Table, text

SETS = ("order", "habits", "rates")
TITLES = {"random": "random", "distance": "distance-weighted", "hard": "hard"}


def negatives(results: Results) -> list[Row]:
    """Return a row for each generated set and number of negatives: each kind's score, and the lead of hard ones."""
    rows = []
    for name in SETS:
        by_arm = {(row["kind"], row["negatives"]): row for row in results[f"negatives-{name}"]}
        for count in COUNTS:
            table_row: Row = {"set": name, "negatives for each row": count}
            for kind in KINDS:
                row = by_arm[kind, count]
                table_row[TITLES[kind]] = f"{text(row['ours'])} ± {text(row['±'])}"
                if kind != KINDS[-1]:
                    lead = f"{text(row['hard ahead'], sign=True)} ± {text(row['ahead ±'])}"
                    table_row[f"hard ahead of {TITLES[kind]}"] = f"**{lead}**" if row["clear"] else lead
            rows.append(table_row)
    return rows


def below(*files: str) -> Table:
    """Return a table of the rows of some files, one file below the other."""
    return lambda results: [row for file in files for row in results[file]]


def beside(*files: str) -> Table:
    """Return a table of the columns of some files, whose rows have the same names in their first column."""

    def table(results: Results) -> list[Row]:
        rows = [dict(row) for row in results[files[0]]]
        for file in files[1:]:
            for row, other in zip(rows, results[file], strict=True):
                name, *titles = other
                assert row[name] == other[name]
                # A title may stand there already, and a row has each key once.
                row |= {title + " " * (title in row): other[title] for title in titles}
        return rows

    return table


def foreseen(results: Results) -> list[Row]:
    """Return the rows of all sets, in the order of the page."""
    files = ("foreseen-generated", "foreseen-habits", "foreseen-real", "foreseen-online_retail")
    by_set = {row["set"]: row for file in files for row in results[file]}
    return [by_set[name] for name in (*SETS, "physionet2012", "online_retail", "nafld", "flights")]


TABLES: dict[str, Table] = {
    "negatives": negatives,
    "gate": below("gate-physionet2012", "gate-failing"),
    "samplers-physionet2012": below("table1-physionet2012", "table8-physionet2012"),
    "samplers-failing": below("table1-failing", "table8-failing"),
    "table2-percent": beside("table2-percent-generated", "table2-percent-physionet2012"),
    "table6": beside("table6-order", "table6-physionet2012"),
    "table7": beside("table7-order", "table7-physionet2012"),
    "figure5": below("figure5-order", "figure5-physionet2012"),
    "foreseen": foreseen,
    "lengths": below("figure3", "figure4", "theorem1", "figure7"),
}
