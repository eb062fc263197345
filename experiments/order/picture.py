"""Draw Figure 2 as SVG: `python -m experiments.order figure2 --json | python -m experiments.order.picture > FILE.svg`.

The SVG is written directly, because none of the project's dependencies draws static pictures.
"""

from __future__ import annotations

import json
import math
import sys

from experiments.command_line import Row

COLOURS = {"ocp": "#0072b2", "ocp_biased": "#e69f00", "pcl": "#009e73"}
NAMES = {"ocp": "OCP", "ocp_biased": "OCP-biased", "pcl": "PCL"}
WIDTH, HEIGHT, LEFT, TOP = 460, 210, 60, 40  # of a panel's axes, and of the margins
LOW, HIGH = 1.5, 4.1  # limits of the vertical axis


def svg(rows: list[Row]) -> str:
    """Return two panels with the number of recovered features by number of pairs; rings are the reference values."""
    parts, top = [], TOP
    for number in (1, 2):
        parts += _panel([row for row in rows if row["distribution"] == number], number, top)
        top += HEIGHT + 75
    size = f'width="{LEFT + WIDTH + 130}" height="{top - 15}"'
    style = 'font-family="sans-serif" font-size="12" fill="#222"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', _background(), *parts, "</svg>\n"])


def _panel(rows: list[Row], number: int, top: int) -> list[str]:
    """Return the SVG elements of one distribution, with the axes beginning at height `top`."""
    sizes = sorted({row["m"] for row in rows})

    def x(m: float) -> float:
        return LEFT + WIDTH * math.log(m / sizes[0]) / math.log(sizes[-1] / sizes[0])

    def y(value: float) -> float:
        return top + HEIGHT * (HIGH - value) / (HIGH - LOW)

    parts = [_text(LEFT, top - 12, f"Distribution {number}: features of S recovered, mean of 100 data sets", "start")]
    for value in (2, 3, 4):
        parts.append(f'<path d="M{LEFT} {y(value):.1f}h{WIDTH}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 10, y(value) + 4, str(value), "end"))
    for m in sizes:
        if m in (50, 100, 200, 400, 1000, 2000, 4000, 8000, 16000):
            parts.append(_text(x(m), top + HEIGHT + 18, f"{m:,}", "middle"))
    parts.append(_text(LEFT + WIDTH / 2, top + HEIGHT + 36, "pairs (rings: reference)", "middle"))
    for place, (method, colour) in enumerate(COLOURS.items()):
        line = sorted((row["m"], row["recovered"], row["recovered known"]) for row in rows if row["method"] == method)
        path = " ".join(f"{x(m):.1f},{y(ours):.1f}" for m, ours, _ in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for m, _, known in line:
            parts.append(f'<circle cx="{x(m):.1f}" cy="{y(known):.1f}" r="4" fill="none" stroke="{colour}"/>')
        height = top + 60 + 22 * place
        parts.append(f'<path d="M{LEFT + WIDTH + 20} {height}h22" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(LEFT + WIDTH + 48, height + 4, NAMES[method], "start"))
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _background() -> str:
    return '<rect width="100%" height="100%" fill="white"/>'


if __name__ == "__main__":
    sys.stdout.write(svg(json.load(sys.stdin)["rows"]))
