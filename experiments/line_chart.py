"""Line charts as SVG text, written directly, because none of the project's dependencies draws static pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
"""Colours that are distinguishable with colour blindness (Okabe and Ito)."""
WIDTH, HEIGHT, LEFT, TOP = 460, 210, 70, 40  # of a panel's axes, and of the margins
BELOW, BESIDE = 75, 170  # a panel's labels of the horizontal axis, and its legend


@dataclass(frozen=True)
class Line:
    """A line of a chart.

    Args:
        name: Its name in the legend.
        points: Pairs of x and y.
        half_widths: Of the interval at each point, drawn as a band; none if empty.
        rings: Further pairs of x and y, drawn as rings, such as reference values.
    """

    name: str
    points: Sequence[tuple[float, float]]
    half_widths: Sequence[float] = ()
    rings: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Axis:
    """An axis of a chart.

    Args:
        label: Its label.
        ticks: The values with a tick; the first and the last are the limits.
        log: Whether it is logarithmic.
    """

    label: str
    ticks: Sequence[float]
    log: bool = False

    def share(self, value: float) -> float:
        """Return the place of a value on the axis, from 0 to 1; values beyond the limits are at the limits."""
        low, high, value = (math.log(max(v, 1e-12)) if self.log else v for v in (self.ticks[0], self.ticks[-1], value))
        return min(max((value - low) / (high - low), 0.0), 1.0)


@dataclass(frozen=True)
class Panel:
    """A chart with a title, two axes and lines."""

    title: str
    x: Axis
    y: Axis
    lines: Sequence[Line]


def svg(panels: Sequence[Panel]) -> str:
    """Return the panels one below the other, as the text of an SVG file.

    Example:
        >>> line = Line("ours", [(1, 0.5), (10, 0.9)], half_widths=[0.1, 0.05])
        >>> text = svg([Panel("accuracy", Axis("labels", [1, 10], log=True), Axis("", [0, 0.5, 1]), [line])])
        >>> text.count("<polyline"), text.count("<polygon")
        (1, 1)
    """
    parts, top = [], TOP
    for panel in panels:
        parts += _panel(panel, top)
        top += HEIGHT + BELOW
    size = f'width="{LEFT + WIDTH + BESIDE}" height="{top - 15}"'
    style = 'font-family="sans-serif" font-size="12" fill="#222"'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', background, *parts, "</svg>\n"])


def _panel(panel: Panel, top: int) -> list[str]:
    """Return the SVG elements of one panel, whose axes begin at height `top`."""

    def place(x: float, y: float) -> str:
        return f"{LEFT + WIDTH * panel.x.share(x):.1f},{top + HEIGHT * (1 - panel.y.share(y)):.1f}"

    parts = [_text(LEFT, top - 14, panel.title, "start")]
    for value in panel.y.ticks:
        height = top + HEIGHT * (1 - panel.y.share(value))
        parts += [
            f'<path d="M{LEFT} {height:.1f}h{WIDTH}" stroke="#ddd"/>',
            _text(LEFT - 10, height + 4, f"{value:,g}", "end"),
        ]
    for value in panel.x.ticks:
        parts.append(_text(LEFT + WIDTH * panel.x.share(value), top + HEIGHT + 18, f"{value:,g}", "middle"))
    parts.append(_text(LEFT + WIDTH / 2, top + HEIGHT + 36, panel.x.label, "middle"))
    if panel.y.label:
        parts.append(_text(LEFT + WIDTH, top - 14, panel.y.label, "end"))
    for index, line in enumerate(panel.lines):
        colour = COLOURS[index % len(COLOURS)]
        if line.half_widths:
            pairs = list(zip(line.points, line.half_widths, strict=True))
            edge = [place(x, y + half) for (x, y), half in pairs] + [place(x, y - half) for (x, y), half in pairs[::-1]]
            parts.append(f'<polygon points="{" ".join(edge)}" fill="{colour}" fill-opacity="0.15"/>')
        points = " ".join(place(x, y) for x, y in line.points)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y in line.rings:
            cx, cy = place(x, y).split(",")
            parts.append(f'<circle cx="{cx}" cy="{cy}" r="4" fill="none" stroke="{colour}"/>')
        level = top + 20 + 22 * index
        parts.append(f'<path d="M{LEFT + WIDTH + 20} {level}h22" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(LEFT + WIDTH + 48, level + 4, line.name, "start"))
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped}</text>'
