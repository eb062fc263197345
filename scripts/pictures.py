"""Draws the picture of the README from a folder that `eventvec demo --out FOLDER` wrote.

    python scripts/pictures.py FOLDER [docs/pictures/demo.svg]

Left is the map of the aircraft, coloured by the first label; right is the chart of that label, as on a phone. Both are
read from the page `report.html`.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import zlib
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
"""Colours that are distinguishable with colour blindness (Okabe and Ito)."""
GREY = "#bbb"
TOP, HEIGHT = 50, 440  # of the map, px
MAP_LEFT, MAP_WIDTH = 10, 440
CHART_LEFT, CHART_WIDTH = 480, 470


def page_data(page: str) -> dict[str, Any]:
    """Return the numbers of the map of a page that `eventvec.report` wrote."""
    script = re.search(r'<script[^>]*\bid="data"[^>]*>([^<]*)</script>', page)
    if script is None:
        raise SystemExit("the page holds no map; name the folder of `eventvec demo --out FOLDER`")
    data: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(script[1])))
    return data


def picture(page: str) -> str:
    """Return the map and the chart side by side, as the text of an SVG file."""
    points, (chart, chart_height) = map_elements(page_data(page)["map"]), chart_element(page)
    height = max(TOP + HEIGHT, TOP + chart_height) + 14
    size = f'viewBox="0 0 {CHART_LEFT + CHART_WIDTH + 10} {height:.0f}" width="{CHART_LEFT + CHART_WIDTH + 10}"'
    style = 'font-family="sans-serif" font-size="12" fill="#222" color="#222"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, *points, *chart, "</svg>\n"])


def chart_element(page: str) -> tuple[list[str], float]:
    """Return the first chart of a page below its title, and its height."""
    title = re.search(r'<div class="narrow"><svg viewBox="0 0 (\S+) (\S+)"[^>]*aria-label="([^"]*)"', page)
    if title is None:
        raise SystemExit("the page holds no chart; name the folder of `eventvec demo --out FOLDER`")
    start = title.start() + len('<div class="narrow">')
    svg = page[start : page.index("</svg>", start) + len("</svg>")]
    height = CHART_WIDTH * float(title[2]) / float(title[1])
    place = f'<svg x="{CHART_LEFT}" y="{TOP}" width="{CHART_WIDTH}" height="{height:.0f}" '
    heading = f'<text x="{CHART_LEFT}" y="20" font-weight="bold">{title[3]}; bars are 95 % intervals</text>'
    return [heading, svg.replace("<svg ", place, 1)], height


def map_elements(points: dict[str, Any]) -> list[str]:
    """Return the points of the map in the colours of the classes of the first label, with a legend."""
    label = points["columns"][0]
    if label["kind"] != "names":
        raise SystemExit(f"the first column of the map, {label['name']!r}, has no classes")
    x, y = (decoded(points[axis], 16) for axis in "xy")
    codes = decoded(label["codes"], label["bits"])
    left, low = min(x), min(y)
    scale = min(MAP_WIDTH / (max(x) - left), HEIGHT / (max(y) - low))
    places = [
        f"{MAP_LEFT + (across - left) * scale:.1f} {TOP + HEIGHT - (up - low) * scale:.1f}"
        for across, up in zip(x, y, strict=True)
    ]
    names = ["not known", *label["names"]]
    named = zip(names, (GREY, *COLOURS), strict=False)
    groups = [(name, colour, np.flatnonzero(codes == code)) for code, (name, colour) in enumerate(named)]
    parts = [text(MAP_LEFT, 20, f"{len(x):,} aircraft, placed by their flights alone", weight="bold")]
    place = float(MAP_LEFT)  # of the next entry of the legend
    for name, colour, rows in groups[::-1]:
        dots = "".join(f"M{places[row]}h0" for row in rows)
        parts.append(f'<path d="{dots}" stroke="{colour}" stroke-width="3" stroke-linecap="round" opacity="0.75"/>')
        words = name if place > MAP_LEFT else f"{label['name']}: {name}"
        parts += [f'<circle cx="{place + 5:.0f}" cy="36" r="5" fill="{colour}"/>', text(place + 14, 40, words)]
        place += 28 + 6.4 * len(words)
    return parts


def decoded(text: str, bits: int) -> np.ndarray:
    """Return the whole numbers of some bits each that a page has as text in the base of 64."""
    return np.frombuffer(base64.b64decode(text), f"<u{bits // 8}").astype(int)


def text(x: float, y: float, words: str, weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-weight="{weight}">{escape(words)}</text>'


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    out = Path(sys.argv[2] if len(sys.argv) > 2 else "docs/pictures/demo.svg")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(picture((Path(sys.argv[1]) / "report.html").read_text()))
    print(out)
