"""Draws the picture of the README from a folder that `eventvec demo --out FOLDER` wrote.

    python scripts/pictures.py FOLDER [docs/pictures/demo.svg]

Left is the map of the aircraft, coloured by the first label; right are the scores of all sets of features on it, with
their intervals. Everything is read from the page `report.html`, which holds the numbers that its charts are drawn from.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from html import escape, unescape
from pathlib import Path
from typing import Any

import numpy as np

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
"""Colours that can be told apart with colour blindness (Okabe and Ito)."""
GREY = "#bbb"
MODELS = ("boosted trees", "blend")
"""The models whose scores are drawn, of those in the page: the one of the CoLES paper, and the one of the verdict."""
NAMES = {
    "both": "embedding + aggregates",
    "embedding_handcrafted": "embedding + handcrafted",
    "event_count": "number of events",
    "untrained": "untrained encoder",
}
TOP, BOTTOM = 50, 462  # of the map, px
MAP_LEFT, MAP_WIDTH = 10, 420
AXIS_LEFT, AXIS_WIDTH = 620, 330
ROW, BLOCK = 22, 34  # the heights of a set of features and of a model's name


def page_data(page: str) -> dict[str, Any]:
    """Return the numbers of the charts and the map of a page that `eventvec.reporting.page` wrote."""
    script = re.search(r'<script[^>]*\bid="data"[^>]*>(.*?)</script>', page, flags=re.DOTALL)
    if script is None:
        raise SystemExit("the page holds no numbers of charts; name the folder of `eventvec demo --out FOLDER`")
    data: dict[str, Any] = json.loads(script[1])
    return data


def picture(data: dict[str, Any]) -> str:
    """Return the map and the scores side by side, as the text of an SVG file."""
    scores, bottom = scores_elements(data["figures"]["chart-0"])
    height = max(BOTTOM, bottom) + 14
    size = f'viewBox="0 0 {AXIS_LEFT + AXIS_WIDTH + 30} {height}" width="{AXIS_LEFT + AXIS_WIDTH + 30}"'
    style = 'font-family="sans-serif" font-size="12" fill="#222"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, *map_elements(data["map"]), *scores, "</svg>\n"])


def map_elements(points: dict[str, Any]) -> list[str]:
    """Return the points of the map in the colours of the classes of the first label, with a legend."""
    label = points["columns"][0]
    if label["kind"] != "names":
        raise SystemExit(f"the first column of the map, {label['name']!r}, has no classes")
    x, y = (decoded(points[axis], 16) for axis in "xy")
    codes = decoded(label["codes"], label["bits"])
    left, low = min(x), min(y)
    scale = min(MAP_WIDTH / (max(x) - left), (BOTTOM - TOP) / (max(y) - low))
    places = [
        f"{MAP_LEFT + (across - left) * scale:.1f} {BOTTOM - (up - low) * scale:.1f}"
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
        parts += legend(place, words, colour)
        place += 28 + 6.4 * len(words)
    return parts


def decoded(text: str, bits: int) -> np.ndarray:
    """Return the whole numbers of some bits each that a page has as text in the base of 64."""
    return np.frombuffer(base64.b64decode(text), f"<u{bits // 8}").astype(int)


def scores_elements(figure: dict[str, Any]) -> tuple[list[str], float]:
    """Return the scores of each set of features by model and share of labels, and the height at which they end."""
    names = [re.sub("<.*?>", "|", tick).strip("|").split("||") for tick in figure["layout"]["yaxis"]["ticktext"]]
    shares = list(dict.fromkeys(share for _, share in names))
    low, high = axis_limits(figure)

    def place(score: float) -> float:
        return AXIS_LEFT + AXIS_WIDTH * (score - low) / (high - low)

    title = figure["layout"]["xaxis"]["title"]["text"]
    parts = [text(AXIS_LEFT - 150, 20, f"What predicts this label: {title}; bars are 95 % intervals", weight="bold")]
    for index, share in enumerate(shares):
        parts += legend(AXIS_LEFT + 115 * index, share, COLOURS[index])
    height = 56
    for model in MODELS:
        parts.append(text(AXIS_LEFT - 150, height + 14, model, weight="bold"))
        height += BLOCK
        for trace in figure["data"]:
            parts.append(text(AXIS_LEFT - 10, height + 4, NAMES.get(trace["name"], unescape(trace["name"])), "end"))
            parts.append(f'<path d="M{AXIS_LEFT} {height}h{AXIS_WIDTH}" stroke="#eee"/>')
            for score, half, y in zip(trace["x"], trace["error_x"]["array"], trace["y"], strict=True):
                of, share = names[round(y)]
                if of == model:
                    parts += dot(place(score - half), place(score), place(score + half), height, shares.index(share))
            height += ROW
    for tenth in range(round(low * 10), round(high * 10) + 1):
        x = place(tenth / 10)
        parts.append(f'<path d="M{x:.1f} 50V{height}" stroke="#ddd"/>')
        parts.append(text(x, height + 16, f"{tenth / 10:.1f}", "middle"))
    return parts, height + 20


def axis_limits(figure: dict[str, Any]) -> tuple[float, float]:
    """Return the tenths around all scores with their intervals."""
    ends = [
        score + side * half
        for trace in figure["data"]
        for score, half in zip(trace["x"], trace["error_x"]["array"], strict=True)
        for side in (-1, 1)
    ]
    return int(min(ends) * 10) / 10, min(int(max(ends) * 10 + 1) / 10, 1.0)


def dot(low: float, x: float, high: float, height: float, colour: int) -> list[str]:
    """Return the dot and the interval of one score."""
    return [
        f'<path d="M{low:.1f} {height}H{high:.1f}" stroke="{COLOURS[colour]}" stroke-width="2"/>',
        f'<circle cx="{x:.1f}" cy="{height}" r="4.5" fill="{COLOURS[colour]}"/>',
    ]


def legend(left: float, words: str, colour: str) -> list[str]:
    """Return an entry of a legend."""
    return [f'<circle cx="{left + 5:.0f}" cy="36" r="5" fill="{colour}"/>', text(left + 14, 40, words)]


def text(x: float, y: float, words: str, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    out = Path(sys.argv[2] if len(sys.argv) > 2 else "docs/pictures/demo.svg")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(picture(page_data((Path(sys.argv[1]) / "report.html").read_text())))
    print(out)
