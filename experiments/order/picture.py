"""Draw `figure2` or `pairs`: `python -m experiments.order TABLE --json | python -m experiments.order.picture`."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable

from experiments.command_line import Row
from experiments.line_chart import Axis, Line, Panel, svg

NAMES = {"ocp": "OCP", "ocp_biased": "OCP-biased", "pcl": "PCL"}
TICKS = (50, 100, 200, 400, 1000, 2000, 4000, 8000, 16000)
FEATURES = ("OCP subset", "all features", "the 30 words", "random subset")


def figure2(rows: list[Row]) -> str:
    """Return two panels with the number of recovered features by number of pairs; rings are the reference values."""
    return svg([_panel([row for row in rows if row["distribution"] == number], number) for number in (1, 2)])


def number_of_pairs(rows: list[Row]) -> str:
    """Return three panels by number of pairs: words found, OCP's lead by share of labels, AUC at the least share."""
    sizes, fractions = sorted({row["pairs"] for row in rows}), sorted({row["fraction"] for row in rows}, reverse=True)
    x = Axis("pairs", sizes, log=True)
    by_fraction = {share: [row for row in rows if row["fraction"] == share] for share in fractions}
    least = by_fraction[fractions[-1]]
    selected = Line("selected by OCP", [(row["pairs"], row["words found"]) for row in least])
    chance = Line("selected at random", [(m, 50 * 30 / 430) for m in sizes])
    leads = [
        Line(
            f"{_share(share)} of the labels",
            [(row["pairs"], row["OCP - all"]) for row in part],
            half_widths=[row["interval"] for row in part],
        )
        for share, part in by_fraction.items()
    ]
    edges = [row["OCP - all"] + sign * row["interval"] for row in rows for sign in (-1, 1)]
    scores = [Line(name, [(row["pairs"], row[name]) for row in least]) for name in FEATURES]
    return svg(
        [
            Panel("Words of concepts among 50 selected ones", x, Axis("", [0, 10, 20, 30]), [selected, chance]),
            Panel("AUC, OCP's subset − all features", x, Axis("", _ticks([*edges, 0], 0.05)), leads),
            Panel(
                f"AUC with {_share(fractions[-1])} of the labels",
                x,
                Axis("", _ticks((y for line in scores for _, y in line.points), 0.1)),
                scores,
            ),
        ]
    )


def _share(share: float) -> str:
    return "all" if share == 1 else f"1/{1 / share:g}"


def _ticks(values: Iterable[float], step: float) -> list[float]:
    """Return multiples of `step` that enclose the values."""
    values = list(values)
    first, last = math.floor(min(values) / step), math.ceil(max(values) / step)
    return [round(number * step, 10) for number in range(first, max(last, first + 1) + 1)]


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
    rows = json.load(sys.stdin)["rows"]
    sys.stdout.write(figure2(rows) if "distribution" in rows[0] else number_of_pairs(rows))
