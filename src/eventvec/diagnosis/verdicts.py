"""What a diagnosis found: as plain values for a file, and in the terminal; `page` shows it too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eventvec.diagnosis import render
from eventvec.diagnosis.lengths import PowerLaw, SliceLengths, Theorem1
from eventvec.diagnosis.repetition import Repeatability
from eventvec.diagnosis.window_order import Irreversibility

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table


@dataclass(frozen=True)
class Verdict:
    """Whether the data meets what a method assumes.

    Args:
        method: its name, and with what option.
        assumption: in words.
        met: None if it could not be checked.
        found: the numbers, or why it could not be checked.

    Example:
        >>> Verdict("coles", "events repeat", None, "there is no categorical column").to_dict()["met"] is None
        True
    """

    method: str
    assumption: str
    met: bool | None
    found: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Which method's assumptions the data meets; returned by `diagnose`.

    Args:
        entities: rows of the data.
        events: of these rows.
        looked_at: entities that repeatability and order were asked of.
        seed: of everything random.
        power_law: of the lengths; None if there is none to fit.
        theorem1: its bounds, for that law.
        slices: what slices do to these lengths.
        repeatability: one per categorical column that could be compared.
        irreversibility: None if it could not be asked.
        verdicts: one per assumption.
        notes: sentences about what was left out or counted, and warnings.

    Example:
        >>> from eventvec import datasets
        >>> from eventvec.diagnosis import diagnose
        >>> from rich.console import Console
        >>> Console(width=100).print(diagnose(datasets.flights()[0][:400]).render())
        400 entities · ... events
        ...
         coles ... an entity's events repeat...
        Lengths...
    """

    entities: int
    events: int
    looked_at: int
    seed: int
    power_law: PowerLaw | None
    theorem1: Theorem1 | None
    slices: SliceLengths | None
    repeatability: tuple[Repeatability, ...]
    irreversibility: Irreversibility | None
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values that JSON can hold; the contract of ``eventvec diagnose --json``."""
        parts = ("power_law", "theorem1", "slices", "irreversibility")
        found = {name: getattr(self, name) for name in parts}
        return {
            **{name: getattr(self, name) for name in ("entities", "events", "looked_at", "seed")},
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            **{name: part and part.to_dict() for name, part in found.items()},
            "repeatability": [part.to_dict() for part in self.repeatability],
            "notes": list(self.notes),
        }

    def render(self) -> Group:
        """Return tables and histograms for a `rich` console to print."""
        from rich.console import Group
        from rich.text import Text

        parts: list[RenderableType] = [Text(f"{self.entities:,} entities · {self.events:,} events", "bold")]
        parts.append(_table(self.verdicts))
        if self.power_law:
            title = "Lengths (bars grow with the logarithm; · is the power law)"
            parts += [Text(title, "bold"), render.lengths_table(self.power_law)]
        if self.theorem1:
            parts.append(Text(_bounds(self.theorem1)))
        if self.repeatability:
            title = "Do events repeat? KL of event types, nats, medians"
            parts += [Text(title, "bold"), render.repeats_table(self.repeatability)]
        if self.irreversibility:
            title = "Can order be read? AUROC of adjacent windows"
            parts += [Text(title, "bold"), render.order_table(self.irreversibility)]
        return Group(*parts, *(Text(f"note: {note}") for note in self.notes))


def _table(verdicts: tuple[Verdict, ...]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("method", "assumes that", "met", "found")
    colours = {True: "green", False: "red", None: "yellow"}
    for v in verdicts:
        table.add_row(v.method, v.assumption, Text(render.answer(v.met), colours[v.met]), Text(v.found))
    return table


def _bounds(t: Theorem1) -> str:
    return (
        f"Theorem 1 at exponent −{-t.alpha:.2f}, from {t.shortest} events on: ratios {t.least:.3f} to {t.most:.3f}, "
        f"{'within' if t.within else 'outside'} its bounds (lower {t.lower:.3f}, as stated {t.lower_statement:.3f}); "
        f"distance of laws {t.rejection:.3f}, of random_slices {t.fixed:.3f}"
    )
