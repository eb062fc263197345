"""The parts of a diagnosis in the terminal: the histogram of lengths, divergences and order by field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from rich.table import Table

    from eventvec.diagnosis.lengths import PowerLaw
    from eventvec.diagnosis.repetition import Repeatability
    from eventvec.diagnosis.window_order import Irreversibility

BARS = " ▁▂▃▄▅▆▇█"
WIDTH = 36
"""Characters of the longest bar."""

BINS = 12
"""Bins of a small histogram."""


def answer(met: bool | None) -> str:
    """Return yes, no, or that it could not be checked.

    Example:
        >>> answer(None), answer(True)
        ('not checked', 'yes')
    """
    return "not checked" if met is None else "yes" if met else "no"


def shared_histogram(values: tuple[Tensor, ...], bins: int) -> tuple[Tensor, list[Tensor]]:
    """Return edges `(bins + 1,)` from 0 to the 99th percentile of all values, and the share of each set per bin; what
    lies beyond is in the last one.

    Example:
        >>> edges, shares = shared_histogram((torch.tensor([0.0, 0.1]), torch.tensor([1.0, 1.0])), 2)
        >>> edges.tolist(), [share.tolist() for share in shares]
        ([0.0, 0.5, 1.0], [[1.0, 0.0], [0.0, 1.0]])
    """
    top = max(float(torch.cat(values).quantile(0.99)), 1e-6)
    edges = torch.linspace(0, top, bins + 1)
    place = [(v.clamp(0, top) / top * bins).long().clamp(max=bins - 1) for v in values]
    return edges, [torch.bincount(at, minlength=bins) / len(at) for at in place]


def lengths_table(law: PowerLaw) -> Table:
    """Return the histogram of lengths as bars, with what the power law expects as dots.

    Example:
        >>> from eventvec.diagnosis import power_law
        >>> table = lengths_table(power_law([1] * 60 + [2] * 30 + [4] * 15, 1))
        >>> [column.header for column in table.columns], table.row_count  # 1, 2, 3, and 4 to 5
        (['events', 'entities', '', 'power law'], 4)
    """
    from rich.table import Table
    from rich.text import Text

    table = Table("events", "entities", "", "power law", box=None)
    edges, counts, expected = law.histogram()
    most = np.log1p(max(counts.max(), np.nanmax(expected)))
    for start, stop, count, e in zip(edges[:-1], edges[1:], counts, expected, strict=True):
        bar = "█" * round(WIDTH * np.log1p(count) / most)
        if not np.isnan(e):
            place = round(WIDTH * np.log1p(e) / most)
            bar = bar.ljust(place + 1)
            bar = bar[:place] + "·" + bar[place + 1 :]
        name = f"{start:,}" if stop == start + 1 else f"{start:,}–{stop - 1:,}"
        table.add_row(name, f"{count:,}", Text(bar), "" if np.isnan(e) else f"{e:,.0f}")
    return table


def repeats_table(found: tuple[Repeatability, ...]) -> Table:
    """Return medians, intervals and small histograms of the divergences of each field."""
    from rich.table import Table
    from rich.text import Text

    table = Table("field", "within", "between", "symmetric", "difference", "own slice nearer", "repeats", "histograms")
    for r in found:
        shares = shared_histogram((r.within, r.between), BINS)[1]
        within, between = r.medians
        both = f"{float(r.symmetric_within.median()):.2f}, {float(r.symmetric_between.median()):.2f}"
        said = "names the entity" if r.names_entities else answer(r.met)
        table.add_row(
            Text(r.field), f"{within:.2f}", f"{between:.2f}", both, str(r.difference), str(r.nearer), said,
            Text(f"within  {_spark(shares[0])}\nbetween {_spark(shares[1])}"),
        )  # fmt: skip
    return table


def order_table(found: Irreversibility) -> Table:
    """Return how well all fields together, and each alone, order adjacent windows."""
    from rich.table import Table
    from rich.text import Text

    table = Table("field", "AUROC", "")
    table.add_row(Text("all fields", "bold"), str(found.auroc), "above the threshold" if found.auroc.clear else "")
    if found.without_clocks:
        table.add_row("without clocks", str(found.without_clocks), "")
    for field in found.fields:
        said = f"clock: {field.clock}" if field.clock else "carries order" if field in found.carriers else ""
        table.add_row(Text(field.name), str(field.auroc), Text(said))
    return table


def _spark(share: Tensor) -> str:
    """Return one character per bin, the higher the more; a bin that is not empty shows."""
    levels = (share / share.max().clamp(min=1e-12) * (len(BARS) - 1)).ceil().long()
    return "".join(BARS[level] for level in levels.tolist())
