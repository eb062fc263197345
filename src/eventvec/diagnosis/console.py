"""The tables of a diagnosis in a terminal: verdicts, length histogram, divergences, and order by field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from rich.table import Table

    from eventvec.diagnosis.lengths import PowerLaw
    from eventvec.diagnosis.repetition import Repeatability
    from eventvec.diagnosis.slicing import Theorem1
    from eventvec.diagnosis.window_order import Irreversibility

COLOURS = {True: "green", False: "red", None: "yellow"}
"""The colours of the answers."""

BARS = " ▁▂▃▄▅▆▇█"
WIDTH = 36
"""Width of the longest bar in characters."""

BINS = 12
"""Number of bins of a small histogram."""


def answer(met: bool | None) -> str:
    """Return "yes", "no" or "cannot be told", after a sign that tells them apart without colours.

    Example:
        >>> answer(None), answer(True)
        ('? cannot be told', '✓ yes')
    """
    return "? cannot be told" if met is None else "✓ yes" if met else "✗ no"


def shared_histogram(values: tuple[Tensor, ...], bins: int) -> tuple[Tensor, list[Tensor]]:
    """Return histograms of several sets of values over common bins.

    Args:
        values: The sets of values, which are not negative.
        bins: Number of bins.

    Returns:
        The edges `(bins + 1,)`, from 0 to the 99th percentile of all values, and for each set the share `(bins,)` of
        its values in each bin. Larger values are in the last bin.

    Example:
        >>> edges, shares = shared_histogram((torch.tensor([0.0, 0.1]), torch.tensor([1.0, 1.0])), 2)
        >>> edges.tolist(), [share.tolist() for share in shares]
        ([0.0, 0.5, 1.0], [[1.0, 0.0], [0.0, 1.0]])
    """
    top = max(float(torch.cat(values).quantile(0.99)), 1e-6)
    edges = torch.linspace(0, top, bins + 1)
    places = [(v.clamp(0, top) / top * bins).long().clamp(max=bins - 1) for v in values]
    return edges, [torch.bincount(place, minlength=bins) / len(place) for place in places]


def verdicts_table(rows: Iterable[tuple[str, str, bool | None, str, str]]) -> Table:
    """Return one row per verdict: method, assumption, whether it is met, what was found, and what to do."""
    from rich.table import Table
    from rich.text import Text

    table = Table("method", "assumption", "met", "result", "advice")
    for method, assumption, met, result, advice in rows:
        table.add_row(method, assumption, Text(answer(met), COLOURS[met]), Text(result), Text(advice))
    return table


def lengths_table(law: PowerLaw) -> Table:
    """Return the histogram of lengths as bars; dots mark the numbers that the power law expects.

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
    most = np.log1p(max(counts.max(), np.nan_to_num(expected).max()))
    for start, stop, count, e in zip(edges[:-1], edges[1:], counts, expected, strict=True):
        bar = "█" * round(WIDTH * np.log1p(count) / most)
        if not np.isnan(e):
            place = round(WIDTH * np.log1p(e) / most)
            bar = bar.ljust(place + 1)
            bar = bar[:place] + "·" + bar[place + 1 :]
        name = f"{start:,}" if stop == start + 1 else f"{start:,}–{stop - 1:,}"
        table.add_row(name, f"{count:,}", Text(bar), "" if np.isnan(e) else f"{e:,.0f}")
    return table


def theorem1_sentence(t: Theorem1) -> str:
    """Return the ratios and distances of Theorem 1 in words."""
    return (
        f"Theorem 1 for exponent −{-t.alpha:.2f} and at least {t.shortest} events: the ratios of slice to sequence "
        f"probabilities go from {t.least:.3f} to {t.most:.3f}, {'within' if t.within else 'outside'} its bounds (lower "
        f"bound {t.lower:.3f} by the proof, {t.lower_statement:.3f} by the statement). The total variation distance of "
        f"the two distributions is {t.rejection:.3f} for rejection_slices and {t.fixed:.3f} for random_slices."
    )


def repetition_table(results: tuple[Repeatability, ...]) -> Table:
    """Return medians, intervals and small histograms of the divergences of each field."""
    from rich.table import Table
    from rich.text import Text

    table = Table("field", "within", "between", "symmetrised", "difference", "same entity closer", "repeats")
    table.add_column("histograms", no_wrap=True)
    for r in results:
        shares = shared_histogram((r.within, r.between), BINS)[1]
        within, between = r.medians
        symmetric = f"{float(r.symmetric_within.median()):.2f}, {float(r.symmetric_between.median()):.2f}"
        repeats = "identifier" if r.names_entities else answer(r.met)
        table.add_row(
            Text(r.field), f"{within:.2f}", f"{between:.2f}", symmetric, str(r.difference), str(r.nearer), repeats,
            Text(f"within  {_spark(shares[0])}\nbetween {_spark(shares[1])}"),
        )  # fmt: skip
    return table


def order_table(result: Irreversibility) -> Table:
    """Return how well all fields together, and each field alone, order adjacent windows."""
    from rich.table import Table
    from rich.text import Text

    table = Table("field", "AUROC", "")
    table.add_row(Text("all fields", "bold"), str(result.auroc), "above the threshold" if result.auroc.clear else "")
    if result.without_clocks:
        table.add_row("all without clocks", str(result.without_clocks), "")
    for field in result.fields:
        remark = f"clock: {field.clock}" if field.clock else "predicts the order" if field in result.carriers else ""
        table.add_row(Text(field.name), str(field.auroc), Text(remark))
    return table


def _spark(share: Tensor) -> str:
    """Return one character per bin whose height grows with the share; bins that are not empty are visible."""
    levels = (share / share.max().clamp(min=1e-12) * (len(BARS) - 1)).ceil().long()
    return "".join(BARS[level] for level in levels.tolist())
