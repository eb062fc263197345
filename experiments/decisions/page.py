"""The tables of the page, from the stored results."""

from __future__ import annotations

from experiments.stored_results import Results, Row, text


def policies(results: Results) -> list[Row]:
    """Return the share of customers that each policy writes to, and what it costs."""
    return [
        {
            "rows": row["rows"], "policy": row["policy"], "writes to": text(row["acted"]),
            "cost of 1,000 customers": _amount(row, "cost"), "the model saves": _amount(row, "model_saves"),
        }
        for row in results["policies"]
    ]  # fmt: skip


def _amount(row: Row, name: str) -> str:
    """Return an amount with its interval."""
    if row[name] is None:
        return ""
    value, low, high = (f"{row[each]:,.0f}".replace("-", "−") for each in (name, f"{name}_low", f"{name}_high"))
    return f"{value} ({low} to {high})"


def measures(results: Results) -> list[Row]:
    """Return each measure with its interval."""
    ends = ("value", "value_low", "value_high")
    lines = [[row["measure"], *(text(row[name]) for name in ends)] for row in results["measures"]]
    return [{"measure": name, "value": f"{value} ({low} to {high})"} for name, value, low, high in lines]


def rules(results: Results) -> list[Row]:
    """Return the range of the losses of each rule, for calibrated predictions and for all others together."""
    lines = list[Row]()
    for rule in dict.fromkeys(row["rule"] for row in results["rules"]):
        line: Row = {"rule": rule}
        for size in dict.fromkeys(row["rows"] for row in results["rules"]):
            for name, calibrated in (("calibrated", True), ("off", False)):
                chosen = [
                    row
                    for row in results["rules"]
                    if (row["rule"], row["rows"], row["predictions"] == "calibrated") == (rule, size, calibrated)
                ]
                least, most = min(row["least"] for row in chosen), max(row["most"] for row in chosen)
                line[f"{name}, {size:,} rows"] = f"{100 * least:.0f} to {100 * most:.0f} %"
        lines.append(line)
    return lines


TABLES = {"rules": rules, "policies": policies, "measures": measures}
