"""The result of a diagnosis, as plain values for a file and as tables for a terminal; `html_page` draws it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eventvec.diagnosis import console
from eventvec.diagnosis.lengths import PowerLaw
from eventvec.diagnosis.repetition import Repeatability
from eventvec.diagnosis.slicing import SliceLengths, Theorem1
from eventvec.diagnosis.window_order import Irreversibility

if TYPE_CHECKING:
    from rich.console import Group, RenderableType


@dataclass(frozen=True)
class Verdict:
    """Whether the data meet an assumption of a method.

    Args:
        method: Name of the method, with its option.
        assumption: The assumption in words.
        met: Whether the assumption is met; None if it could not be checked.
        found: The numbers behind the verdict, or the reason why the assumption could not be checked.

    Example:
        >>> Verdict("coles", "events repeat", None, "there is no categorical column").to_dict()["met"] is None
        True
    """

    method: str
    assumption: str
    met: bool | None
    found: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Which assumptions the data meet; returned by `diagnose`.

    Args:
        entities: Number of rows.
        events: Number of events.
        looked_at: Number of entities that were checked for repeatability and order.
        seed: Seed of everything random.
        power_law: The power law of the lengths; None if none could be fitted.
        theorem1: The bounds of Theorem 1 for that power law.
        slices: How far slices change the length distribution.
        repeatability: One result per categorical column that could be compared.
        irreversibility: Whether order can be predicted; None if this could not be checked.
        verdicts: One verdict per assumption.
        notes: What was sampled or left out, and warnings.

    Example:
        >>> from eventvec import datasets
        >>> from eventvec.diagnosis import diagnose
        >>> from rich.console import Console
        >>> Console(width=100).print(diagnose(datasets.flights()[0][:400]).render())
        400 entities · ... events
        ...
         coles ... events repeat...
        Sequence lengths...
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
        """Return plain values that JSON can hold, as ``eventvec diagnose --json`` prints them."""
        names = ("power_law", "theorem1", "slices", "irreversibility")
        parts = {name: getattr(self, name) for name in names}
        return {
            **{name: getattr(self, name) for name in ("entities", "events", "looked_at", "seed")},
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            **{name: part and part.to_dict() for name, part in parts.items()},
            "repeatability": [part.to_dict() for part in self.repeatability],
            "notes": list(self.notes),
        }

    def render(self) -> Group:
        """Return tables and histograms that a `rich` console can print."""
        from rich.console import Group
        from rich.text import Text

        rows = [(v.method, v.assumption, v.met, v.found) for v in self.verdicts]
        parts: list[RenderableType] = [Text(f"{self.entities:,} entities · {self.events:,} events", "bold")]
        parts.append(console.verdicts_table(rows))
        if self.power_law:
            title = "Sequence lengths (bars on a logarithmic scale; · marks the power law)"
            parts += [Text(title, "bold"), console.lengths_table(self.power_law)]
        if self.theorem1:
            parts.append(Text(console.theorem1_sentence(self.theorem1)))
        if self.repeatability:
            title = "Do events repeat? Median KL divergence of event types within and between entities, in nats"
            parts += [Text(title, "bold"), console.repetition_table(self.repeatability)]
        if self.irreversibility:
            title = "Can order be predicted? AUROC of a linear model on adjacent windows"
            parts += [Text(title, "bold"), console.order_table(self.irreversibility)]
        return Group(*parts, *(Text(f"note: {note}") for note in self.notes))
