"""The result of a comparison: scores, costs and the answer, as plain values and as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from eventvec.comparing.winner import Choice
from eventvec.evaluation import Evaluation
from eventvec.evaluation.printing import stacked, terminal_table

if TYPE_CHECKING:
    from rich.console import Group

HEAD = ("arm", "score", "training, s", "embedding, s per 1,000", "weights", "numbers", "epochs", "remark")
"""The headings of `Comparison.texts`."""
FORMS = (
    ("arm", "{arm}"), ("score", "{score:.3f} ± {interval:.3f}"), ("training", "{training:.0f}"),
    ("embedding", "{embedding:.2g}"), ("weights", "{weights:,}"), ("dim", "{dim}"), ("epochs", "{epochs}"),
    ("remark", "{remark}"),
)  # fmt: skip
"""The cells of a row: the entry without which the cell is empty, and its text."""


@dataclass(frozen=True)
class Cost:
    """What an arm costs: the seconds of its training and of embedding 1,000 entities, the number of weights, the
    numbers in a vector, and the epochs that the budget allowed."""

    training: float
    embedding: float
    weights: int
    dim: int
    epochs: int


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of `compare`.

    Args:
        evaluation: The scores of all arms and of simple features in the same folds, and all paired differences.
        model: The model whose scores decide.
        costs: What each arm costs, by its name.
        failed: The reason why an arm could not be trained, by its name.
        choice: Which arm to use.
        budget: The budget of each arm, in words.
        notes: Sentences about what was left out or counted.

    Example:
        >>> import eventvec as ev
        >>> result = ev.compare(data, labels, "churn", out="compared")  # doctest: +SKIP
        >>> result.choice.advised  # doctest: +SKIP
        'coles'
    """

    evaluation: Evaluation
    model: str
    costs: Mapping[str, Cost]
    failed: Mapping[str, str]
    choice: Choice
    budget: str
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Which arm to use, and whether it is ahead of simple features of the same events, in words; before them, what
        to check if the scores are too good to be true."""
        return f"{self.evaluation.verdict} {self._answer()}".lstrip()

    def _answer(self) -> str:
        best = self.choice.winner or self.choice.level[0]
        simple = {r.features: r for r in self._cells() if r.features not in self.costs}
        if not simple:
            return self.choice.sentence
        opponent = max(simple, key=lambda name: simple[name].main.mean)
        lead = next(r for r in self._cells() if r.features == best).main - simple[opponent].main
        place = {"level": "level with", "ahead": "ahead of", "behind": "behind"}[lead.place]
        return f"{self.choice.sentence} {best} is {place} {opponent} ({lead.text('+')})."

    def _cells(self) -> list[Any]:
        return [r for r in self.evaluation.results if r.model == self.model]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each arm and each set of simple features, best first, then the arms that failed."""
        rows = []
        for r in sorted(self._cells(), key=lambda r: -r.main.mean):
            cost = self.costs.get(r.features)
            costs = vars(cost) if cost else dict.fromkeys(each.name for each in fields(Cost))
            remark = "winner" if r.features == self.choice.winner else ""
            remark = "level with the best" if r.features in self.choice.level[1:] else remark
            scores = {"arm": r.features, "score": r.main.mean, "interval": r.main.interval}
            rows.append({**scores, **costs, "remark": remark})
        return rows + [{**dict.fromkeys(rows[0]), "arm": name, "remark": why} for name, why in self.failed.items()]

    def texts(self) -> list[list[str]]:
        """Return the rows as texts, under `HEAD`."""
        return [[form.format(**row) if row[name] is not None else "" for name, form in FORMS] for row in self.rows()]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, which `eventvec compare --json` prints."""
        return {
            "verdict": self.verdict, "winner": self.choice.winner, "level": list(self.choice.level),
            "advised": self.choice.advised, "metric": self.evaluation.metric, "model": self.model,
            "budget": self.budget, "arms": self.rows(), "failed": dict(self.failed), "notes": list(self.notes),
            "evaluation": self.evaluation.to_dict(),
        }  # fmt: skip

    def render(self) -> Group:
        """Return the verdict, the table of arms and the notes for a `rich` console to print."""
        about = f"{self.evaluation.metric} ({self.model}) on {self.evaluation.rows_text}; {self.budget} for each arm"
        return stacked(self.verdict, about, terminal_table(HEAD, self.texts()), notes=self.notes)
