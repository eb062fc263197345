"""`Chart`: a figure as SVG and the sentence below it; the drawings of all charts; the colour and shape of each name.

A page has each chart twice, for a wide screen and for a phone, and shows one of the two. Text stays text. Text and axes
have the colour of the text around the figure, so it can be read on white and on black.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eventvec.errors import need, printable
from eventvec.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
else:
    Axes = Any

PALETTE = ("#3b82d6", "#e08a1e", "#2a9d74", "#c4588f", "#8a6fd1", "#b3a125", "#4cb3cf", "#c9543c")
"""Colours that are distinguishable on white and on black, also with colour blindness (after Okabe and Ito)."""
BLUE, ORANGE, GREEN, PINK, PURPLE, OLIVE, CYAN, RED = PALETTE
GREY = "#8d959e"
INK = "#010203"
"""The colour in place of which an SVG has that of the text around it."""
WIDE, NARROW = 900, 380
"""The widths in pixels for which a chart is drawn."""


class Look(NamedTuple):
    """A colour, and a shape by the letter that matplotlib has for it."""

    colour: str
    marker: str = "o"


PLAIN = Look(BLUE)
"""The look of a single series."""
KNOWN = {
    "embedding": Look(BLUE, "o"),
    "embedding: learned": Look(CYAN, "o"),
    "handcrafted": Look(ORANGE, "s"),
    "embedding_handcrafted": Look(PURPLE, "D"),
    "handcrafted_again": Look(ORANGE, "D"),
    "aggregates": Look(GREEN, "s"),
    "both": Look(OLIVE, "D"),
    "earlier_labels": Look(PINK, "s"),
    "embedding_earlier_labels": Look(RED, "D"),
    "untrained": Look(GREY, "^"),
    "event_count": Look(GREY, "X"),
}
"""The looks of the sets of features that eventvec makes."""
OTHERS = tuple(
    Look(colour, "vP*hd<>p"[(i + again) % 8])
    for again in range(8)
    for i, colour in enumerate((PINK, OLIVE, GREEN, RED, CYAN, BLUE, ORANGE, PURPLE))
)
"""The looks of other names, in their order; none has the shape of a known one."""


def looks(names: Sequence[str]) -> dict[str, Look]:
    """Return the look of each name: that of `KNOWN`, and in their order those of others."""
    others = [name for name in dict.fromkeys(names) if name not in KNOWN]
    return {name: KNOWN.get(name) or OTHERS[others.index(name) % len(OTHERS)] for name in names}


@dataclass(frozen=True, eq=False)
class Chart:
    """A figure of matplotlib, its heading, and the sentence below it.

    Args:
        title: The heading.
        caption: The sentence below the figure, which says what it shows.
        draw: Draws on the axes that it is called with, see the functions of this module.
        height: The height in pixels on a wide screen, see `lines_height` for names on lines.
    """

    title: str
    caption: str
    draw: Callable[[Axes], None]
    height: int = 320

    def svg(self, width: int, name: str) -> str:
        """Return the figure as an element of HTML of a width in pixels; `name` is that of its ids in the page.

        Raises:
            ConfigError: If matplotlib is not installed.
        """
        matplotlib = need("matplotlib", "viz")
        figures, backend = need("matplotlib.figure", "viz"), need("matplotlib.backends.backend_svg", "viz")
        with matplotlib.rc_context(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as about a letter that is in no font here, but in one of the browser
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(_style(width))
            height = self.height if width == WIDE else 1.2 * self.height  # names on lines have more lines of text
            figure = figures.Figure((width / 72, height / 72), dpi=72, layout="constrained")
            self.draw(figure.subplots())
            backend.FigureCanvasSVG(figure).print_svg(file := io.StringIO())  # `savefig` draws the figure twice
        return _element(file.getvalue(), name, escape(printable(self.title)))


@dataclass(frozen=True, eq=False)
class Series:
    """Numbers for the names or places of an axis, with their intervals if they are estimates.

    Args:
        values: A number for each name or place, None where there is none.
        name: The name in the legend; series without names have none.
        look: The colour and shape of all, or of each.
        pale: Whether they are drawn in pale colours, behind others.
    """

    values: Sequence[Estimate | float | None]
    name: str = ""
    look: Look | Sequence[Look] = PLAIN
    pale: bool = False

    def look_of(self, place: int) -> Look:
        """Return the look of one number."""
        return self.look if isinstance(self.look, Look) else self.look[place]

    @property
    def alpha(self) -> float:
        """How opaque its colours are."""
        return 0.4 if self.pale else 0.9

    def numbers(self) -> list[tuple[int, float, float, float]]:
        """Return the place, the value, and the length of the interval below and above it of each number there is."""
        out = []
        for place, each in enumerate(self.values):
            if each is not None and math.isfinite(value := each.value if isinstance(each, Estimate) else float(each)):
                low, high = (each.low, each.high) if isinstance(each, Estimate) else (value, value)
                below, above = (
                    max(length, 0) if math.isfinite(length) else 0 for length in (value - low, high - value)
                )
                out.append((place, value, below, above))
        return out


def lines_height(count: int, series: int = 1) -> int:
    """Return the height in pixels of a chart with names on lines, each of which holds a number of series."""
    return 84 + count * max(30, 15 * series)


def dots(
    axes: Axes, names: Sequence[str], *series: Series, across: str, reference: float | None = None, apart: bool = True
) -> None:
    """Draw names on lines, the first on top, and on each line a dot with its interval for each series.

    The estimates of a single series, pale ones aside, stand beside it as text.

    Args:
        axes: The axes.
        names: The name of each line.
        series: The numbers, one for each name.
        across: The title of the axis of numbers.
        reference: A number at which there is a dotted line, such as that of guessing.
        apart: Whether the dots of several series are below one another, not at the same height.
    """
    on_lines(axes, names, across, reference)
    for i, each in enumerate(series):
        shift = min(0.22, 0.8 / len(series)) * (i - (len(series) - 1) / 2) if apart else 0
        for line, value, below, above in each.numbers():
            _dot(axes, value, line + shift, each.look_of(line), each.alpha, xerr=[[below], [above]])
    _beside(axes, series)
    legend(axes, series)


def bars(axes: Axes, names: Sequence[str], series: Series, *, across: str) -> None:
    """Draw names on lines, the first on top, and on each line a bar with its interval."""
    on_lines(axes, names, across, 0)
    for line, value, below, above in series.numbers():
        ends = [[below], [above]] if below or above else None
        look: Any = {"color": series.look_of(line).colour, "alpha": series.alpha}
        axes.barh(line, value, 0.7, xerr=ends, error_kw={"ecolor": INK, "capsize": 3}, **look)
    _beside(axes, [series])


def columns(axes: Axes, names: Sequence[str], *series: Series, up: str, across: str = "") -> None:
    """Draw a group of upright bars for each name, one for each series."""
    width = 0.8 / len(series)
    for i, each in enumerate(series):
        for place, value, _, _ in each.numbers():
            left = place + width * (i - len(series) / 2)
            axes.bar(left, value, width, align="edge", color=each.look_of(place).colour, alpha=each.alpha)
    axes.set_xticks(range(len(names)), [shortened(name, 24) for name in names])
    if sum(min(len(name), 24) + 2 for name in names) * _size(axes) * 0.6 > _pixels(axes):
        axes.tick_params(axis="x", labelrotation=45)
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    _titles(axes, across, up)
    legend(axes, series, swatches=True)


def histogram(axes: Axes, edges: Sequence[Any], counts: Sequence[int], *, across: str, up: str) -> None:
    """Draw a bar between each two edges, which are numbers or times, one more than there are counts."""
    left, right = np.asarray(edges[:-1]), np.asarray(edges[1:])
    axes.bar(left, np.asarray(counts), right - left, align="edge", color=BLUE, alpha=0.85, edgecolor=BLUE, lw=0.3)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    _titles(axes, across, up)


def curves(
    axes: Axes, places: Sequence[float], *series: Series, across: str, up: str, joined: bool = True, log: bool = False
) -> None:
    """Draw a line through the numbers of each series with their intervals, or without the line if not `joined`.

    Args:
        axes: The axes.
        places: The place of each number on the lower axis.
        series: The numbers, one for each place.
        across: The title of the lower axis.
        up: The title of the upright axis.
        joined: Whether the dots of a series are joined by a line.
        log: Whether the lower axis is logarithmic, with each place as a tick.
    """
    if log:
        axes.set_xscale("log")
        axes.set_xticks(list(places), [f"{place:g}" for place in places])
        axes.set_xticks([], minor=True)
    elif all(isinstance(place, int) for place in places):
        axes.locator_params(axis="x", integer=True)
    for each in series:
        numbers = each.numbers()
        if joined:
            colour = each.look_of(0).colour
            axes.plot([places[place] for place, *_ in numbers], [value for _, value, *_ in numbers], color=colour, lw=2)
        for place, value, below, above in numbers if not joined or len(numbers) <= 40 else ():
            _dot(axes, places[place], value, each.look_of(place), each.alpha, yerr=[[below], [above]])
    axes.grid(axis="both")
    _titles(axes, across, up)
    legend(axes, series)


def level(axes: Axes, value: float, name: str, right: bool = False) -> None:
    """Draw a dotted line across the axes at a height, with its name above its left or its right end."""
    axes.axhline(value, ls=":", lw=1.2, color=INK)
    place = (1.0, "right") if right else (0.0, "left")
    at = axes.get_yaxis_transform()
    axes.text(place[0], value, shortened(name, 40), transform=at, ha=place[1], va="bottom", size="small")


def on_lines(axes: Axes, names: Sequence[str], across: str, reference: float | None = None) -> None:
    """Give each name a line of the upright axis, the first on top, and the lower axis its title."""
    letters = 18 if _is_narrow(axes) else 44
    axes.set_yticks(
        range(len(names)), ["\n".join(textwrap.wrap(shortened(name, 2 * letters), letters)) for name in names]
    )
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
    if reference is not None:
        axes.axvline(reference, ls=":" if reference else "-", lw=1.2, color=INK, alpha=0.7, zorder=1)
    _titles(axes, across, "")


def legend(axes: Axes, series: Sequence[Series], swatches: bool = False) -> None:
    """Draw a legend above the axes, if more than one series has a name, in as many columns as there is room for."""
    from matplotlib.lines import Line2D

    named = [each for each in series if each.name]
    if len(named) < 2:
        return
    handles = []
    for each in named:
        look, name = each.look_of(0), shortened(each.name, 40)
        marker = "s" if swatches else look.marker
        handles.append(Line2D([], [], color=look.colour, marker=marker, ls="", ms=9, alpha=each.alpha, label=name))
    longest = max(len(shortened(each.name, 40)) for each in named)
    most = max(1, int(_pixels(axes) / ((longest * 0.62 + 4) * _size(axes))))
    spacing: Any = {"frameon": False, "handletextpad": 0.3, "columnspacing": 1.2}
    axes.figure.legend(handles=handles, loc="outside upper left", ncols=min(most, len(named)), **spacing)


def shortened(text: str, most: int) -> str:
    """Return a text on one line that is cut after a number of characters."""
    text = printable(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _beside(axes: Axes, series: Sequence[Series]) -> None:
    """Write the estimates at the right end of their lines, if only one series is not pale."""
    strong = [each for each in series if not each.pale]
    for line, each in enumerate(strong[0].values if len(strong) == 1 else ()):
        shown = str(each).replace("-", "−") if isinstance(each, Estimate) else ""
        axes.text(1.02, line, shown, transform=axes.get_yaxis_transform(), va="center")


def _dot(axes: Axes, x: float, y: float, look: Look, alpha: float, **ends: Any) -> None:
    """Draw a dot with its interval."""
    if not any(length for (length,) in next(iter(ends.values()))):
        ends = {}
    sizes: Any = {"ms": 10 if look.marker in "*PX|" else 8, "mew": 2.5 if look.marker == "|" else 0}
    lines: Any = {"elinewidth": 2, "capsize": 4, "capthick": 1.5}
    axes.errorbar([x], [y], fmt=look.marker, color=look.colour, alpha=alpha, **sizes, **lines, **ends)


def _titles(axes: Axes, across: str, up: str) -> None:
    letters = 44 if _is_narrow(axes) else 110
    axes.set_xlabel("\n".join(textwrap.wrap(printable(across), letters)))
    axes.set_ylabel(shortened(up, 50))


def _pixels(axes: Axes) -> float:
    """Return the width of the figure in pixels."""
    figure: Any = axes.figure
    return float(figure.get_figwidth()) * 72


def _is_narrow(axes: Axes) -> bool:
    return _pixels(axes) < (WIDE + NARROW) / 2


def _size(axes: Axes) -> float:
    """Return the size of letters in pixels."""
    return 11.5 if _is_narrow(axes) else 13.0


def _style(width: int) -> Mapping[str, Any]:
    """Return the parameters of matplotlib for a figure of a width in pixels; no text is read as mathematics."""
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color")
    return {
        **dict.fromkeys(inked, INK),
        **dict.fromkeys(("axes.spines.top", "axes.spines.right", "text.parse_math"), False),
        **dict.fromkeys(("figure.facecolor", "axes.facecolor"), "none"),
        "font.size": 11.5 if width < (WIDE + NARROW) / 2 else 13.0,
        "grid.alpha": 0.15,
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "svg.fonttype": "none",
        "svg.hashsalt": "eventvec",
        "date.converter": "concise",
    }


def _element(text: str, name: str, title: str) -> str:
    """Return an SVG file as an element of HTML, with ids that begin with a name, in the font and colour around it."""
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text[text.index("<svg ") :], flags=re.DOTALL)
    used = set(re.findall(r'(?:url\(|xlink:href=")#([\w-]+)', text))
    text = re.sub(r"font-family: [^;\"]*; ", "", text)
    text = re.sub(r"font: (\S+px) [^;\"]*", r"font-size: \1", text)  # as older versions of matplotlib write it
    text = re.sub(r' id="([^"]*)"', lambda each: f' id="{name}-{each[1]}"' if each[1] in used else "", text)
    text = re.sub(r'(url\(|xlink:href=")#', rf"\1#{name}-", text)
    size = re.search(r'viewBox="[^"]*"', text)
    assert size is not None
    head = f'<svg {size[0]} role="img" aria-label="{title}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    return head + text[text.index(">") + 1 :].replace(INK, "currentColor").strip()
