"""The differences between two periods, as plain values for a file and as text for a terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eventvec.evaluation.printing import stacked, terminal_table

if TYPE_CHECKING:
    from rich.console import Group

HEAD = ("", "distance", "equal periods", "p (Holm)", "largest change", "old", "new")
"""The headings of `row_of`."""
NAMED = 5
"""The largest number of columns that a verdict names."""


@dataclass(frozen=True)
class Shift:
    """The difference of two periods in one column, or in a part of the embeddings.

    Args:
        name: The column, or `events per entity`, `gap`, `hour of the day`, `embedding`, `embedding: learned` and so on.
        kind: `count`, `interval`, `numeric`, `categorical`, `list`, `text` or `embedding`.
        distance: How far apart the periods are, from 0 to 1: the Kolmogorov-Smirnov distance of numbers, the total
            variation of categories, and the energy coefficient of embeddings.
        noise: The distance that 95 % of equal periods stay below, so that nothing smaller could have been found.
        p: The p-value of the permutation test.
        adjusted: The p-value after the correction for the number of tests (Holm).
        shifted: Whether the periods differ at the level of the test.
        where: The bin whose share differs most in standard errors, such as `≤ 12.5` or `missing`; empty for embeddings.
        old: The share of that bin in the old period, the mean over entities; None for embeddings.
        new: The same in the new period.
        missing: The shares of missing values in both periods; None where there are no missing values.
        unknown: The shares of values outside the vocabulary in both periods; None where there are none.
        auroc: How well a linear model tells the periods of unseen entities apart by their vectors, .5 is guessing; None
            for columns, and for fewer than 10 entities in a period.
        bins: What is in each bin, and its share in both periods; for embeddings, of the scores of the linear model.

    Example:
        >>> shift = Shift("paid", "numeric", 0.2, 0.05, 0.001, 0.004, True, "≤ 12.5", 0.5, 0.7)
        >>> shift.sentence
        "'paid' (≤ 12.5: 50 % of the events, then 70 %)"
    """

    name: str
    kind: str
    distance: float
    noise: float
    p: float
    adjusted: float
    shifted: bool
    where: str = ""
    old: float | None = None
    new: float | None = None
    missing: tuple[float, float] | None = None
    unknown: tuple[float, float] | None = None
    auroc: float | None = None
    bins: tuple[tuple[str, float, float], ...] = ()

    @property
    def sentence(self) -> str:
        """The name of the column with the largest change, or of the embeddings with the AUROC of the linear model."""
        if self.kind == "embedding":
            return self.name + ("" if self.auroc is None else f" (told apart with an AUROC of {self.auroc:.2f})")
        unit = {"count": "entities", "interval": "gaps", "list": "elements"}.get(self.kind, "events")
        return f"{self.name!r} ({self.where}: {percent(self.old)} of the {unit}, then {percent(self.new)})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        bins = [{"bin": label, "old": finite(old), "new": finite(new)} for label, old, new in self.bins]
        return {**vars(self), "old": finite(self.old), "new": finite(self.new), "bins": bins}


@dataclass(frozen=True, repr=False)
class Drift:
    """Whether two periods differ; returned by `drift`.

    Args:
        shifts: One for each column and each part of the embeddings.
        level: The largest probability that anything is found between equal periods.
        entities: The number of entities in both periods, in the old one only, and in the new one only.
        sampled: The same, of the entities that were compared.
        events: The number of events of the old and of the new period, of the entities that were compared.
        permutations: The number of permutations.
        seed: The seed of the sample and of the permutations.
        notes: What was sampled or left out, and warnings.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> old = pl.DataFrame({"card": [*range(100)], "day": [0] * 100, "paid": [float(i % 9) for i in range(100)]})
        >>> new = old.with_columns(pl.col("paid") * 3, day=9, card=pl.col("card") + 1000)
        >>> result = ev.drift(old, new, key="card", time="day", numeric=["paid"])
        >>> [shift.name for shift in result.shifts if shift.shifted], result.found
        (['paid'], True)
    """

    shifts: tuple[Shift, ...]
    level: float
    entities: tuple[int, int, int]
    sampled: tuple[int, int, int]
    events: tuple[int, int]
    permutations: int
    seed: int
    notes: tuple[str, ...]

    @property
    def found(self) -> bool:
        """Whether a column or the embeddings differ between the periods."""
        return any(shift.shifted for shift in self.shifts)

    @property
    def verdict(self) -> str:
        """What differs, the largest distance first, or that nothing was found."""
        columns = [shift for shift in self.shifts if shift.kind != "embedding"]
        vectors = [shift for shift in self.shifts if shift.kind == "embedding"]
        tested = f"{len(columns)} inputs" + (" and the embeddings" if vectors else "")
        rate = f"at a false-alarm rate of {percent(self.level)} for all together"
        if not self.found:
            return f"No difference between the periods was found in {tested}, {rate}."
        differ = sorted((each for each in columns if each.shifted), key=lambda each: -each.distance)
        sentences = [f"{len(differ)} of {len(columns)} inputs differ between the periods, {rate}" if columns else ""]
        if differ:
            more = f" and {len(differ) - NAMED} more" if len(differ) > NAMED else ""
            sentences[0] += f": {', '.join(each.sentence for each in differ[:NAMED])}{more}"
        if vectors:
            apart = [each.sentence for each in vectors if each.shifted]
            sentences.append(f"The embeddings differ: {', '.join(apart)}" if apart else "The embeddings do not differ")
        return ". ".join(sentence for sentence in sentences if sentence) + "."

    def __repr__(self) -> str:
        return f"Drift({self.verdict})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold, as ``eventvec drift --json`` prints them."""
        names = ("both", "old_only", "new_only")
        return {
            "verdict": self.verdict,
            "drift": self.found,
            "level": self.level,
            "correction": "holm",
            "permutations": self.permutations,
            "seed": self.seed,
            "entities": dict(zip(names, self.entities, strict=True)),
            "sampled": dict(zip(names, self.sampled, strict=True)),
            "events": dict(zip(("old", "new"), self.events, strict=True)),
            "shifts": [shift.to_dict() for shift in self.shifts],
            "notes": list(self.notes),
        }

    def render(self) -> Group:
        """Return the verdict, a table and the notes, which a `rich` console can print."""
        rows, bold = [row_of(shift) for shift in self.shifts], [shift.shifted for shift in self.shifts]
        return stacked(self.verdict, self.compared, terminal_table(HEAD, rows, bold), notes=self.notes)

    @property
    def compared(self) -> str:
        """How many entities are in which period, and how many of them were compared."""
        both, old, new = self.entities
        sentence = f"{both:,} entities in both periods, {old:,} in the old one only, {new:,} in the new one only"
        if self.sampled != self.entities:
            sentence += "; compared: {:,}, {:,} and {:,}".format(*self.sampled)
        return sentence


def row_of(shift: Shift) -> list[str]:
    """Return the cells of a shift in a table: name, distance, its noise, p-value, and the largest change."""
    where = shift.where if shift.auroc is None else f"AUROC of a linear model: {shift.auroc:.2f}"
    shares = ["" if shift.kind == "embedding" else percent(share) for share in (shift.old, shift.new)]
    return [shift.name, f"{shift.distance:.3f}", f"< {shift.noise:.3f}", f"{shift.adjusted:.3f}", where, *shares]


def percent(share: float | None) -> str:
    """Return a share as a percentage."""
    return "none" if finite(share) is None else f"{100 * float(share or 0):.3g} %"


def finite(number: float | None) -> float | None:
    """Return a number that JSON can hold, or None, which stands for the share of a bin without any values."""
    return None if number is None or not math.isfinite(number) else float(np.float64(number))
