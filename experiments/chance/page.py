"""The tables of the page, from the stored results."""

from __future__ import annotations

from experiments.stored_results import Results, Row, text


def _shown(row: Row) -> Row:
    digits = {"mean score": text(row["mean score"]), "standard error": text(row["standard error"])}
    above = f"{100 * row['wholly above']:.0f} %"
    chosen = {title: row[title] for title in ("kind", "task", "rows", "draws", "not printed")}
    return {
        **chosen,
        **digits,
        "chance": row["chance"],
        "wholly above": above,
        "holds": "yes" if row["holds"] else "**no**",
    }


def table(results: Results) -> list[Row]:
    """Return the rows of tables without times, and those of tables with times, which were drawn again later."""
    without = [row for row in results["table"] if row["kind"] == "no times"]
    return [_shown(row) for row in (*without, *results["table-times"])]


def winners(results: Results) -> list[Row]:
    """Return the rows of the best of several sets."""
    return [_shown(row) for row in results["winners"]]


TABLES = {"table": table, "winners": winners}
