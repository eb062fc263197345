"""Draw Figure 2: `python -m experiments.order figure2 --json | python -m experiments.order.picture > FILE.svg`."""

from __future__ import annotations

import json
import sys

from experiments.command_line import Row
from experiments.line_chart import Axis, Line, Panel, svg

NAMES = {"ocp": "OCP", "ocp_biased": "OCP-biased", "pcl": "PCL"}
TICKS = (50, 100, 200, 400, 1000, 2000, 4000, 8000, 16000)


def figure2(rows: list[Row]) -> str:
    """Return two panels with the number of recovered features by number of pairs; rings are the reference values."""
    return svg([_panel([row for row in rows if row["distribution"] == number], number) for number in (1, 2)])


def _panel(rows: list[Row], number: int) -> Panel:
    sizes = sorted({row["m"] for row in rows})
    ticks = [sizes[0], *(m for m in TICKS if sizes[0] < m < sizes[-1]), sizes[-1]]
    lines = []
    for method, name in NAMES.items():
        by_size = sorted(
            (row["m"], row["recovered"], row["recovered known"]) for row in rows if row["method"] == method
        )
        lines.append(Line(name, [(m, ours) for m, ours, _ in by_size], rings=[(m, known) for m, _, known in by_size]))
    title = f"Distribution {number}: features of S recovered, mean of 100 data sets"
    return Panel(title, Axis("pairs (rings: reference)", ticks, log=True), Axis("", [1.5, 2, 3, 4]), lines)


if __name__ == "__main__":
    sys.stdout.write(figure2(json.load(sys.stdin)["rows"]))
