"""Cuts without randomness: at a time, after the first event, before the latest ones, at a window's edge."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from eventvec.errors import DataError
from eventvec.options import at_least
from eventvec.schema import KNOWN
from eventvec.sequences import Sequences, Values, histories, keep_copy, on_host, searchsorted


def as_of(x: Sequences, time: Tensor | float) -> Sequences:
    """Return each row's events strictly before a time; no event is copied.

    Where events have a time at which they became known, it is this time that counts.

    Args:
        x: Rows whose column `time` is non-decreasing within each row.
        time: `(n,)` one time per row, or a single one, in the unit of the column.

    Raises:
        DataError: If a row's events became known in another order than that of their times, so they must be copied
            as `until` and the cutoffs of `read` do.

    Example:
        >>> x = Sequences({"time": torch.tensor([1, 3, 5, 2, 9])}, torch.tensor([0, 3]), torch.tensor([3, 2]))
        >>> as_of(x, torch.tensor([5, 2])).lengths.tolist()
        [2, 0]
    """
    ends, column = torch.as_tensor(time, device=x.device).expand(len(x)), "time"
    if KNOWN in x.columns:
        column = KNOWN
        if others := int((~known_in_order(x)).sum()):
            raise DataError(
                f"the events of {others:,} of {len(x):,} rows became known in another order than that of their times, "
                "and a cut copies such events; cut the data set with until(data, time), or read it with cutoffs="
            )
    return replace(x, lengths=searchsorted(x, column, ends))


def latest(x: Sequences, longest: int) -> Sequences:
    """Return at most `longest` events of each row, the latest ones."""
    lengths = x.lengths.clamp(max=longest)
    return x.slice(torch.arange(len(x), device=x.device), x.lengths - lengths, lengths)


def known_in_order(x: Sequences) -> Tensor:
    """Return `(n,)` bool, true for rows whose events became known in the order of their times.

    Of rows that begin at the same event, all are as the longest one.
    """
    longest, history = histories(x)
    rows = x[longest]
    ordered = [history.new_zeros(0, dtype=torch.bool)]
    for block in rows.blocks():
        part = rows[block]
        row, known = part.rows(), part.values(KNOWN)
        earlier = (known[1:] < known[:-1]) & (row[1:] == row[:-1])
        ordered.append(row[1:][earlier].bincount(minlength=len(part)) == 0)
    return torch.cat(ordered)[history]


def hold_out(x: Sequences, targets: int = 1) -> Sequences:
    """Return each row without its first events, which become the static value `targets`: nested rows of these events.

    Targeted methods predict these events from the others. No event is copied. A single event with columns `x` and `y`
    is repeated in the static values `x*` and `y*`.

    Args:
        x: Rows with at least as many events as there are targets.
        targets: Events of each row that are held out, at least 1.

    Raises:
        ConfigError: If `targets` is below 1.
        DataError: If a row has fewer events.

    Example:
        >>> x = Sequences({"x": torch.tensor([1, 2, 3])}, torch.tensor([0]), torch.tensor([3]))
        >>> hold_out(x, targets=2).static["targets"].values("x").tolist()
        [1, 2]
    """
    at_least("targets", targets, 1)
    if x.device.type == "cpu" and (count := int((x.lengths < targets).sum())):
        raise DataError(
            f"the first {targets:,} events of a row are targets, but {count:,} of {len(x):,} rows have fewer events"
        )
    on_host(x.lengths)  # waits for a device once, and not for the targets and the rest each
    held_out = keep_copy(torch.full_like(x.lengths, targets), lambda copy: torch.full_like(copy, targets), x.lengths)
    static: dict[str, Values] = {**x.static, "targets": replace(x, lengths=held_out, static={})}
    if targets == 1 and {"x", "y"} <= set(x.columns):
        static |= {f"{name}*": x.columns[name][x.starts] for name in ("x", "y")}
    lengths = keep_copy(x.lengths - targets, lambda copy: copy - targets, x.lengths)
    return replace(x, starts=x.starts + targets, lengths=lengths, static=static)


def restart_gap(x: Sequences) -> Sequences:
    """Return the same rows with `gap` missing at each row's first event, as if its history began there.

    Events are copied, because the first event of one window may be inside another.

    Example:
        >>> x = Sequences({"gap": torch.tensor([1.0, 2.0, 3.0])}, torch.tensor([0, 1]), torch.tensor([2, 2]))
        >>> restart_gap(x).values("gap").tolist()
        [nan, 2.0, nan, 3.0]
    """
    if "gap" not in x.columns:
        return x
    copied = x.take(x.flat(), x.lengths)
    gap = copied.values("gap").masked_fill(copied.steps() == 0, float("nan"))
    return replace(copied, columns={**copied.columns, "gap": gap})
