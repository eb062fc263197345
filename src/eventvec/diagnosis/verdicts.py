"""The result of a diagnosis, as plain values for a file and as tables for a terminal; `html_page` draws it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eventvec.diagnosis import console
from eventvec.diagnosis.lengths import PowerLaw
from eventvec.diagnosis.repetition import Repeatability
from eventvec.diagnosis.slicing import SliceLengths, Theorem1
from eventvec.diagnosis.window_order import Irreversibility

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

REJECTION_SLICES = "coles with rejection_slices"
TRIED: Mapping[tuple[str, bool], tuple[int, int]] = {
    ("coles", True): (2, 4),
    ("coles", False): (1, 3),
    (REJECTION_SLICES, False): (7, 7),
    ("ocp, ocp_biased, pcl", True): (1, 8),
    ("ocp, ocp_biased, pcl", False): (4, 6),
}
"""In how many of how many cases an answer, met or not, foresaw whether its method helps.

Counted by `python -m experiments.coles diagnostic` and `python -m experiments.order diagnostic`, whose READMEs have the
tables; docs/diagnose.md says what counts as help.
"""
ADVICE: Mapping[tuple[str, bool], str] = {(REJECTION_SLICES, False): "keep random_slices, the default of coles"}
"""What to do after an answer, if it foresaw the help in every case."""


@dataclass(frozen=True)
class Verdict:
    """Whether the data meet an assumption of a method, and what that is worth.

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

    @property
    def tried(self) -> tuple[int, int]:
        """In how many of how many cases of the studies this answer foresaw whether the method helps."""
        return (0, 0) if self.met is None else TRIED.get((self.method, self.met), (0, 0))

    @property
    def advice(self) -> str:
        """What to do, only if this answer was right in every case; otherwise how often it was right."""
        right, cases = self.tried
        if self.met is None:
            return "none"
        if not cases:
            return "none: this answer was not tried"
        if right < cases:
            return f"none: this answer was right in {right} of {cases} cases"
        return f"{ADVICE[self.method, self.met]} (right in {right} of {cases} cases)"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        right, cases = self.tried
        return {**vars(self), "advice": self.advice, "right": right, "cases": cases}


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
        Nothing here tells which of coles, ocp, ocp_biased, pcl will help...
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

    @property
    def recommendation(self) -> str:
        """Which method to use, in one sentence, or that nothing here tells, and what to do then.

        It rests on answers only that foresaw in every case whether the method helps.
        """
        always_right = [v for v in self.verdicts if v.tried[1] and v.tried[0] == v.tried[1]]
        methods = [v.advice for v in always_right if v.method != REJECTION_SLICES]
        samplers = [v.advice for v in always_right if v.method == REJECTION_SLICES]
        if methods:
            return f"What was right in every case that was tried: {'; '.join([*methods, *samplers])}."
        others = ", ".join(v.method for v in self.verdicts if v.method != REJECTION_SLICES)
        kept = f", and {'; '.join(samplers)}" if samplers else ""
        return (
            f"Nothing here tells which of {others} will help, because no answer about them was right in every case "
            f"that was tried: start with coles, the default of fit{kept}; then let evaluate decide on your labels."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold, as ``eventvec diagnose --json`` prints them."""
        names = ("power_law", "theorem1", "slices", "irreversibility")
        parts = {name: getattr(self, name) for name in names}
        return {
            **{name: getattr(self, name) for name in ("entities", "events", "looked_at", "seed")},
            "recommendation": self.recommendation,
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            **{name: part and part.to_dict() for name, part in parts.items()},
            "repeatability": [part.to_dict() for part in self.repeatability],
            "notes": list(self.notes),
        }

    def render(self) -> Group:
        """Return tables and histograms that a `rich` console can print."""
        from rich.console import Group
        from rich.text import Text

        rows = [(v.method, v.assumption, v.met, v.found, v.advice) for v in self.verdicts]
        parts: list[RenderableType] = [
            Text(self.recommendation, "bold"),
            Text(f"{self.entities:,} entities · {self.events:,} events", "bold"),
        ]
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
