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


TABLES: dict[str, Table] = {"negatives": negatives}
