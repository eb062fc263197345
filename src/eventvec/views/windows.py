"""Views that are windows of a row: slices, segments, spans of time. No event is copied."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import torch
from torch import Tensor

from eventvec.errors import ConfigError, DataError
from eventvec.sequences import Sequences, searchsorted
from eventvec.views.draws import at_least, bounds, integers, slice_lengths, some

FOREVER = 2**62
"""A width beyond any integer time, which can still be added to one."""


@dataclass(frozen=True)
class RandomSlices:
    """A fixed number of random slices of each row: contiguous windows whose lengths are drawn uniformly.

    The reading of the public code (Babaev et al. 2022): the length of a slice of a row with T events is uniform on
    `{shortest, …, min(longest, T)}`, its first event uniform over all places where it fits. The upper bound is
    included, as in version 0.7 of the public code (the paper's time excluded it).

    Relations: `RejectionSlices` is the paper's own Algorithm 1, whose kept slices follow the length law of the data.

    Args:
        count: slices per row, at least 1; methods that compare views of a row need 2.
        shortest: events in the shortest slice; rows of that length or less have only one slice and are not usable.
        longest: events in the longest slice.

    Example:
        >>> x = Sequences({}, torch.tensor([0, 50]), torch.tensor([50, 9]))
        >>> views, source = RandomSlices(count=3, shortest=4, longest=8)(x, torch.Generator().manual_seed(0))
        >>> source.tolist()
        [0, 0, 0, 1, 1, 1]
        >>> bool(((views.lengths >= 4) & (views.lengths <= 8)).all())
        True
    """

    count: int = 5
    shortest: int = 15
    longest: int = 150

    def __post_init__(self) -> None:
        at_least("count", self.count, 1)
        bounds(self.shortest, self.longest)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows of which more than one slice exists."""
        return x.lengths > self.shortest

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` views of each row, row after row."""
        source = torch.arange(len(batch), device=batch.device).repeat_interleave(self.count)
        room = batch.lengths[source]
        length = slice_lengths(room, self.shortest, self.longest, rng)
        return batch.slice(source, integers(room - length + 1, rng), length), source


@dataclass(frozen=True)
class RejectionSlices:
    """Random slices as the paper's Algorithm 1 draws them: any length up to the row's, kept if it is in bounds.

    `trials` times per row, a length is drawn uniformly from `{1, …, T}`; the slice is kept if the length lies in
    `[shortest, longest]`. So a row gives between 0 and `trials` slices. A row with one slice has no positive pair but
    still serves as a negative, one without is skipped. The start is uniform on `{0, …, T - length}`: the range that
    the paper prints leaves the last event out and is empty for a slice of the whole row.

    Relations: `RandomSlices` draws a fixed number and rejects nothing, so its slices are shorter than the data.

    Args:
        trials: lengths drawn per row, k in the paper.
        shortest: events in the shortest slice that is kept, m in the paper.
        longest: events in the longest slice that is kept, M in the paper.

    Example:
        >>> x = Sequences({}, torch.tensor([0]), torch.tensor([10]))
        >>> views, source = RejectionSlices(trials=100, shortest=5)(x, torch.Generator().manual_seed(0))
        >>> int(views.lengths.min()), int(views.lengths.max()), 40 < len(views) < 80
        (5, 10, True)
    """

    trials: int = 5
    shortest: int = 15
    longest: int = 150

    def __post_init__(self) -> None:
        at_least("trials", self.trials, 2)
        bounds(self.shortest, self.longest)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows of which more than one slice can be kept."""
        return x.lengths > self.shortest

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, at most `trials` views of each row, row after row."""
        source = torch.arange(len(batch), device=batch.device).repeat_interleave(self.trials)
        room = batch.lengths[source]
        length = 1 + integers(room, rng)
        offset = integers(room - length + 1, rng)
        kept = ((length >= self.shortest) & (length <= self.longest) & (length <= room)).nonzero().squeeze(1)
        return batch.slice(source[kept], offset[kept], length[kept]), source[kept]


@dataclass(frozen=True)
class DisjointSegments:
    """Each row cut at random places into contiguous segments that do not overlap and leave no event out.

    What the text of Babaev et al. 2022, Section 3.3, calls random disjoint samples; their Algorithm 2 is
    `DisjointSamples`. The cuts are a random set of places between two events, so that all ways to cut a row
    have the same chance. A row with fewer events than segments is cut into single events.

    Relations: `RandomSlices` overlap, and leave events out.

    Args:
        count: segments per row, at least 2.

    Example:
        >>> x = Sequences({"code": torch.arange(6)}, torch.tensor([0]), torch.tensor([6]))
        >>> views, source = DisjointSegments(count=3)(x, torch.Generator().manual_seed(0))
        >>> views.values("code").tolist(), source.tolist()
        ([0, 1, 2, 3, 4, 5], [0, 0, 0])
    """

    count: int = 5

    def __post_init__(self) -> None:
        at_least("count", self.count, 2)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows that can be cut."""
        return x.lengths >= 2

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, at most `count` views of each row, row after row, in the order of time."""
        places = (batch.lengths - 1).clamp(min=0)
        step, row = batch.steps(), batch.rows()
        begins = step == 0
        begins = begins.masked_scatter(~begins, some(places, places.clamp(max=self.count - 1), rng))
        first = begins.nonzero().squeeze(1)
        length = torch.cat([first[1:], first.new_tensor([batch.total])]) - first  # rows lie one behind the other
        return batch.slice(row[first], step[first], length), row[first]


@dataclass(frozen=True)
class TimeWindows:
    """A fixed number of random windows of each row, all of the same width in time: days, weeks.

    A window begins with one of the row's events and holds all that come less than `width` after it. It is drawn
    uniformly from those that hold at least `shortest` events, so that no draw is rejected.

    Relations: `RandomSlices` counts events; where their rate differs, its slices last differently long. The split by
    weeks of the public code of Babaev et al. 2022, which no table there has, deals whole weeks out to views.

    Args:
        width: how long a window lasts, in the unit of the column `time`; or for calendar times, whose unit is a
            microsecond, a text: a number of weeks, days, hours, minutes or seconds, like `7 days`, `7d` or `12h`. (Of
            integer times a sampler cannot know what they count, and takes a text as microseconds there too; `usable`
            refuses a text if no row lasts that long, as where integers count days.)
        count: windows per row, at least 2.
        shortest: events in a window at least. Rows with fewer than two such windows are not usable.

    Raises:
        ConfigError: the width is no such text, or not above 0 and finite.

    Example:
        >>> x = Sequences({"time": torch.tensor([0, 1, 2, 7, 8, 9])}, torch.tensor([0]), torch.tensor([6]))
        >>> views, _ = TimeWindows(width=3, count=20, shortest=3)(x, torch.Generator().manual_seed(0))
        >>> sorted(set(views.starts.tolist())), set(views.lengths.tolist())
        ([0, 3], {3})
        >>> TimeWindows("2 weeks").span == 14 * 24 * 3600 * 1_000_000
        True
    """

    width: float | str = "7 days"
    count: int = 5
    shortest: int = 5

    def __post_init__(self) -> None:
        at_least("count", self.count, 2)
        at_least("shortest", self.shortest, 1)
        if not 0 < self.span < math.inf:
            raise ConfigError(f"width is {self.width!r}; it must be above 0 and finite")

    @property
    def span(self) -> float:
        """The width in the unit of the column `time`."""
        if not isinstance(self.width, str):
            return self.width
        found = re.fullmatch(r"(\d+(?:\.\d+)?) *([smhdw]|seconds?|minutes?|hours?|days?|weeks?)", self.width.strip())
        if not found:
            raise ConfigError(f"width is {self.width!r}; write a number, or a text like 7 days, 12h, 30m, 90s, 2w")
        return float(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}[found[2][0]] * 1e6

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with at least two windows.

        Raises:
            DataError: there is no column `time`, or the width is a text and times are fractions or no row lasts longer.
        """
        (time, span), most = self._times(x), self.shortest - 1
        self._refuse_all_wider(x, time)
        near = time[most:] < time[: max(len(time) - most, 0)] + span  # of each event and the one so many places later
        before = torch.cat([near.new_zeros(1, dtype=torch.long), near.cumsum(0)])
        first = x.starts.clamp(max=len(near))
        last = (x.starts + (x.lengths - most).clamp(min=0)).clamp(max=len(near))
        return before[last] - before[first] >= 2

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` views of each row that has a window, row after row.

        Raises:
            DataError: there is no column `time`, or the width is a text and times are fractions.
        """
        begins = self._begins(batch)
        windows = torch.zeros_like(batch.lengths).index_add(0, batch.rows(), begins.long())
        source = (windows > 0).nonzero().squeeze(1).repeat_interleave(self.count)
        above = (windows.cumsum(0) - windows)[source]  # windows of the rows before
        drawn = begins.nonzero().squeeze(1)[above + integers(windows[source], rng)]
        offset = batch.steps()[drawn]
        rest = batch.slice(source, offset, batch.lengths[source] - offset)
        time, span = self._times(rest)
        return batch.slice(source, offset, searchsorted(rest, "time", time[rest.starts] + span)), source

    def _begins(self, x: Sequences) -> Tensor:
        """Return `(total,)` bool: events with which a window of enough events begins."""
        (time, span), first = self._times(x), x.flat()
        inside = x.steps() + self.shortest <= x.lengths[x.rows()]
        last = torch.where(inside, first + self.shortest - 1, first)  # the last event that must be in the window
        return inside & (time[last] < time[first] + span)

    def _times(self, x: Sequences) -> tuple[Tensor, float]:
        """Return the column and the width in its unit, whole where times are: int64 plus a fraction is float32."""
        time = x.columns.get("time")
        if not isinstance(time, Tensor) or (isinstance(self.width, str) and time.is_floating_point()):
            found = "there is none" if time is None else "it has fractions, of which no calendar is known"
            raise DataError(f"windows of width {self.width!r} are cut along the column 'time', and {found}")
        return time, self.span if time.is_floating_point() else min(math.ceil(self.span), FOREVER)

    def _refuse_all_wider(self, x: Sequences, time: Tensor) -> None:
        """Raise if the width is a text and no row lasts longer, so that every window ends with its row."""
        filled = x[x.lengths > 0]
        if not isinstance(self.width, str) or not len(filled):
            return
        lasts = int((time[filled.starts + filled.lengths - 1] - time[filled.starts]).max())
        if lasts < self.span:
            raise DataError(
                f"width is {self.width!r}, {self.span:,.0f} microseconds, and the longest history lasts {lasts:,} in "
                "the unit of its times: every window would end with its history; give a smaller width, or, if times "
                "count something else than microseconds, a number in their unit"
            )
