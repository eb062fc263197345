"""Views that are windows of a row: slices, segments, windows of a width in time. No event is copied."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import torch
from torch import Tensor

from eventvec.errors import ConfigError, DataError
from eventvec.options import at_least
from eventvec.sequences import Sequences, on_host, places, searchsorted, with_copy
from eventvec.views.draws import Disjoint, Sized, check_bounds, cut_at_random, integers, slice_lengths, sources

LARGEST_WIDTH = 2**62
"""A width beyond any integer time, which can be added to one without overflow."""


@dataclass(frozen=True)
class RandomSlices(Sized):
    """A fixed number of random slices of each row: contiguous windows whose lengths are drawn uniformly.

    These are the slices of the public code (Babaev et al. 2022). In a row of T events, the length of a slice is uniform
    on `{shortest, …, min(longest, T)}` and its first event is uniform over all places where the slice fits. The upper
    bound is included, as in version 0.7 of the public code; the version of the paper's time excluded it.

    Relations: `RejectionSlices` is the paper's own Algorithm 1, whose slices follow the length distribution of the
    data.

    Args:
        count: Slices per row, at least 1; methods that compare views of a row need 2.
        shortest: Events in the shortest slice, at least 1. Rows with no more events are not usable: they have one
            slice.
        longest: Events in the longest slice.

    Raises:
        ConfigError: If a number is out of range.

    Example:
        >>> x = Sequences({}, torch.tensor([0, 50]), torch.tensor([50, 9]))
        >>> RandomSlices(count=3, shortest=4, longest=8)(x, torch.Generator())[1].tolist()
        [0, 0, 0, 1, 1, 1]
    """

    fewest = 1

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` views of each row, row after row."""
        source = sources(len(batch), self.count, batch.device)
        row_length = batch.lengths[source]
        length = slice_lengths(row_length, self.shortest, self.longest, rng)
        return batch.slice(source, integers(row_length - length + 1, rng), length), source


@dataclass(frozen=True)
class RejectionSlices:
    """Random slices by Algorithm 1 of Babaev et al. 2022: lengths up to the row's, rejected outside the bounds.

    For each row of T events, `trials` lengths are drawn uniformly from `{1, …, T}`, and a slice is kept if its length
    is in `[shortest, longest]`. A row with one slice has no positive pair but still gives negatives; a row without
    slices is skipped. The first event is uniform on `{0, …, T - length}`: the range printed in the paper omits the last
    event and is empty for a slice of the whole row.

    Relations: `RandomSlices` draws a fixed number and rejects none, so its slices are shorter than the data.

    Args:
        trials: Lengths drawn per row, at least 2; k in the paper.
        shortest: Events in the shortest slice, at least 1; m in the paper.
        longest: Events in the longest slice; M in the paper.

    Raises:
        ConfigError: If a number is out of range.

    Example:
        >>> x = Sequences({}, torch.tensor([0]), torch.tensor([10]))
        >>> 40 < len(RejectionSlices(trials=100, shortest=5)(x, torch.Generator())[0]) < 80
        True
    """

    trials: int = 5
    shortest: int = 15
    longest: int = 150

    def __post_init__(self) -> None:
        at_least("trials", self.trials, 2)
        check_bounds(self.shortest, self.longest)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: true for rows with more than one possible slice."""
        return x.lengths > self.shortest

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, at most `trials` views of each row, row after row."""
        source = sources(len(batch), self.trials, batch.device)
        row_length = batch[source].lengths
        length = 1 + integers(row_length, rng)
        offset = integers(row_length - length + 1, rng)
        drawn, row_length = on_host(length), on_host(row_length)
        in_bounds = (drawn >= self.shortest) & (drawn <= self.longest) & (drawn <= row_length)
        accepted = with_copy(in_bounds.nonzero().squeeze(1), batch.device)
        length, source = (with_copy(on_host(values)[on_host(accepted)], batch.device) for values in (length, source))
        return batch.slice(source, offset[accepted], length), source


@dataclass(frozen=True)
class DisjointSegments(Disjoint):
    """Contiguous segments that partition each row, cut at random places.

    The text of Babaev et al. 2022, Section 3.4, calls these random disjoint samples; their Algorithm 2 is
    `DisjointSamples`. The cuts are a random subset of the places between two events, so every partition of a row into
    that many segments has the same probability. A row with fewer events than segments is cut into single events.

    Relations: `RandomSlices` may overlap and may omit events.

    Args:
        count: Segments per row, at least 2.

    Raises:
        ConfigError: If a number is out of range.

    Example:
        >>> x = Sequences({"code": torch.arange(6)}, torch.tensor([0]), torch.tensor([6]))
        >>> DisjointSegments(count=3)(x, torch.Generator())[0].values("code").tolist()
        [0, 1, 2, 3, 4, 5]
    """

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, at most `count` views of each row, row after row, in the order of time."""
        begins, counts = cut_at_random(batch, self.count, rng)
        source = with_copy(torch.arange(len(batch)).repeat_interleave(on_host(counts)), batch.device)
        first = places(begins, len(source))
        length = torch.cat([first[1:], torch.full_like(first[:1], batch.total)]) - first  # places follow row after row
        return batch.slice(source, batch.steps()[first], length), source


@dataclass(frozen=True)
class TimeWindows:
    """A fixed number of random windows of each row, all of the same width in time, such as days or weeks.

    A window begins at an event and holds all events of the row less than `width` after it. It is drawn uniformly from
    the windows with at least `shortest` events, so no draw is rejected.

    Relations: `RandomSlices` counts events, so its slices last longer where events are rarer. The public code of Babaev
    et al. 2022 also has a split by weeks, used in none of its tables, which assigns whole weeks to views.

    Args:
        width: Width of a window in the unit of the column `time`, or for calendar times a text: a number of weeks,
            days, hours, minutes or seconds, such as `7 days`, `7d` or `12h`. With integer times, a text means
            microseconds; `usable` refuses a text if no row lasts that long, as when integers count days.
        count: Windows per row, at least 2.
        shortest: Minimum number of events in a window, at least 1. Rows with fewer than two such windows are not
            usable.

    Raises:
        ConfigError: If `width` is neither such a text nor positive and finite, or a number is out of range.

    Example:
        >>> x = Sequences({"time": torch.tensor([0, 1, 2, 7, 8, 9])}, torch.tensor([0]), torch.tensor([6]))
        >>> views, _ = TimeWindows(width=3, count=20, shortest=3)(x, torch.Generator().manual_seed(0))
        >>> sorted(set(views.starts.tolist())), set(views.lengths.tolist())
        ([0, 3], {3})
    """

    width: float | str = "7 days"
    count: int = 5
    shortest: int = 5

    def __post_init__(self) -> None:
        at_least("count", self.count, 2)
        at_least("shortest", self.shortest, 1)
        if not 0 < self.span < math.inf:
            raise ConfigError(f"width must be above 0 and finite, got {self.width!r}")

    @property
    def span(self) -> float:
        """The width in the unit of the column `time`."""
        if not isinstance(self.width, str):
            return self.width
        parts = re.fullmatch(r"(\d+(?:\.\d+)?) *([smhdw]|seconds?|minutes?|hours?|days?|weeks?)", self.width.strip())
        if not parts:
            raise ConfigError(
                f"width must be a number or a text such as 7 days, 12h, 30m, 90s or 2w, got {self.width!r}"
            )
        return float(parts[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}[parts[2][0]] * 1e6

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: true for rows with at least two windows."""
        self._refuse_all_wider(x, self._times(x)[0])
        usable = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        for block in x.blocks():
            usable[block] = self._n_windows(x[block], self._begins(x[block])) >= 2
        return usable

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` views of each row that has a window, row after row."""
        begins = self._begins(batch)
        n_windows = self._n_windows(batch, begins)
        counts = on_host(n_windows)
        source = with_copy((counts > 0).nonzero().squeeze(1).repeat_interleave(self.count), batch.device)
        before = (n_windows.cumsum(0) - n_windows)[source]  # windows of the preceding rows
        first = places(begins, int(counts.sum()))[before + integers(n_windows[source], rng)]
        offset, rows = batch.steps()[first], batch[source]
        time, span = self._times(rows)
        end = searchsorted(rows, "time", time[rows.starts + offset] + span)
        return batch.slice(source, offset, end - offset), source

    def _n_windows(self, x: Sequences, begins: Tensor) -> Tensor:
        """Return `(n,)` how many windows begin in each row."""
        return torch.zeros_like(x.lengths).index_add(0, x.rows(), begins.long())

    def _begins(self, x: Sequences) -> Tensor:
        """Return `(total,)` bool: true for events at which a window of at least `shortest` events begins."""
        (time, span), first = self._times(x), x.flat()
        inside = x.steps() + self.shortest <= x.lengths[x.rows()]
        last = torch.where(inside, first + self.shortest - 1, first)  # the last event that must be in the window
        return inside & (time[last] < time[first] + span)

    def _times(self, x: Sequences) -> tuple[Tensor, float]:
        """Return the times and the width in their unit, an integer for integer times: int64 plus float is float32."""
        time = x.columns.get("time")
        if not isinstance(time, Tensor):
            raise DataError(f"windows of width {self.width!r} need a column 'time', which the events lack")
        if isinstance(self.width, str) and time.is_floating_point():
            raise DataError(
                f"width {self.width!r} needs calendar times, but the column 'time' holds fractions; "
                "give width as a number in their unit"
            )
        return time, self.span if time.is_floating_point() else min(math.ceil(self.span), LARGEST_WIDTH)

    def _refuse_all_wider(self, x: Sequences, time: Tensor) -> None:
        """Refuse a width in words that exceeds every row, so every window would end with its row."""
        rows = x[x.lengths > 0]
        if not isinstance(self.width, str) or not len(rows):
            return
        longest = int((time[rows.starts + rows.lengths - 1] - time[rows.starts]).max())
        if longest < self.span:
            raise DataError(
                f"width {self.width!r} is {self.span:,.0f} microseconds, but the longest history lasts {longest:,} in "
                "the unit of its times, so every window would end with its history; give a smaller width, or a number "
                "in the unit of the times if that is not the microsecond"
            )
