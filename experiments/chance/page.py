"""The tables of the page, from the stored results."""

from __future__ import annotations

from experiments.stored_results import Results, Row, text

HOLDS = {True: "yes", False: "**no**"}


def _shown(row: Row) -> Row:
    digits = {"mean score": text(row["mean score"]), "standard error": text(row["standard error"])}
    above = "" if row["wholly above"] is None else f"{100 * row['wholly above']:.0f} %"
    chosen = {title: row[title] for title in ("kind", "task", "rows", "draws", "not printed")}
    return {
        **chosen,
        **digits,
        "chance": row["chance"],
        "wholly above": above,
        "holds": HOLDS[row["holds"]] if row["not printed"] < row["draws"] else "no score",
    }


def table(results: Results) -> list[Row]:
    """Return the rows of tables without times, and those of tables with times, which were drawn again later."""
    return [_shown(row) for row in (*results["table-no-times"], *results["table-times"])]


def winners(results: Results) -> list[Row]:
    """Return the rows of the best of several sets."""
    return [_shown(row) for row in results["winners"]]


TABLES = {"table": table, "winners": winners}
