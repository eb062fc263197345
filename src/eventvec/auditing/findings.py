"""The answers of a privacy audit: sentences for people, and plain values for machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from eventvec.evaluation.printing import stacked, terminal_table
from eventvec.reporting.headline import with_and

if TYPE_CHECKING:
    from rich.console import Group

Answer: TypeAlias = Literal["yes", "not found", "cannot be told"]
Question: TypeAlias = Literal["attribute", "linkage", "membership"]

QUESTIONS: Mapping[Question, str] = {
    "attribute": "Can protected columns be read from the vectors?",
    "linkage": "Can two parts of one history be matched across files?",
    "membership": "Does it show that somebody was in the training data?",
}
MARKS: Mapping[Answer, str] = {"yes": "● yes", "not found": "○ not found", "cannot be told": "? cannot be told"}


@dataclass(frozen=True)
class Finding:
    """The answer to one question.

    Args:
        question: Which question it answers.
        name: The protected column, or the way of the attack.
        answer: `yes` if the vectors reveal it more than chance, `not found` if they do not as far as can be seen.
        beyond: Whether the vectors reveal more than simple features of the same events; None if that does not apply.
        sentence: The answer in words.
        metric: The name of the score; empty if there is none.
        score: The score of the vectors.
        low: The lower end of its interval.
        high: The upper end of its interval.
        chance: The score of guessing.
        others: The scores of simple features of the same events, by name.

    Example:
        >>> Finding("linkage", "halves", "yes", True, "They can.", "AUROC", 0.9, 0.88, 0.92, 0.5).to_dict()["answer"]
        'yes'
    """

    question: Question
    name: str
    answer: Answer
    beyond: bool | None
    sentence: str
    metric: str = ""
    score: float | None = None
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    others: Mapping[str, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "others": dict(self.others or {})}


def untold(question: Question, name: str, sentence: str) -> Finding:
    """Return the answer that nothing can be told."""
    return Finding(question, name, "cannot be told", None, sentence)


@dataclass(frozen=True)
class Audit:
    """The result of a privacy audit.

    Args:
        run: The id of the run.
        entities: The number of entities.
        events: The number of events.
        level: The false-alarm rate of the audit: how often at most a question about a clean run is answered with yes.
        seed: The seed of everything random.
        findings: The answers, question by question.
        notes: Sentences about what was left out or counted.

    Example:
        >>> Audit("3f2a", 90, 800, 0.05, 0, (), ()).verdict
        'Nothing was asked.'
    """

    run: str
    entities: int
    events: int
    level: float
    seed: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """The answers in one sentence."""
        if not self.findings:
            return "Nothing was asked."
        columns = [repr(f.name) for f in self.findings if f.answer == "yes" and f.question == "attribute"]
        revealed = {"linkage": "link two parts of one history", "membership": "show who was in the training data"}
        asked = {f.question for f in self.findings if f.answer == "yes"}
        parts = [f"reveal {with_and(columns)}"] if columns else []
        parts += [text for question, text in revealed.items() if question in asked]
        open_ = [q for q in QUESTIONS if any(f.question == q and f.answer == "cannot be told" for f in self.findings)]
        sentence = f"The vectors {with_and(parts)}." if parts else "No leak was found, within the limits below."
        if open_:
            what = {"attribute": "some protected columns", "linkage": "linkage", "membership": "membership"}
            sentence += f" Nothing can be told about {with_and([what[q] for q in open_])}."
        return sentence

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, which `eventvec audit --json` prints."""
        return {**vars(self), "verdict": self.verdict, "findings": [f.to_dict() for f in self.findings],
                "notes": list(self.notes)}  # fmt: skip

    def rows(self) -> list[list[str]]:
        """Return one row of text for each answer: question, name, answer, score, chance, simple features."""
        rows = []
        for f in self.findings:
            others = ", ".join(f"{name} {value:.3f}" for name, value in (f.others or {}).items())
            rows.append([QUESTIONS[f.question], f.name, MARKS[f.answer], _interval(f), _number(f.chance), others])
        return rows

    def render(self) -> Group:
        """Return the verdict, the answers and the notes for a `rich` console to print."""
        sentences = (finding.sentence for finding in self.findings)
        return stacked(self.verdict, terminal_table(HEAD, self.rows()), *sentences, notes=self.notes)


HEAD = ("question", "column or attack", "answer", "score of the vectors", "chance", "simple features")
"""The headings of `Audit.rows`."""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _interval(finding: Finding) -> str:
    if finding.score is None:
        return ""
    return f"{finding.metric} {finding.score:.3f} ({_number(finding.low)} to {_number(finding.high)})"
