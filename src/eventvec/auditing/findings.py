"""The answers of a privacy audit: a row and a sentence for each, the verdict, and what a reader must know besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

from eventvec.answers import Answer, Chart, charts
from eventvec.answers.charts import BLUE, GREEN, ORANGE, PINK, Axes, Look, Series
from eventvec.statistics import Estimate
from eventvec.statistics.areas import largest_leak
from eventvec.statistics.estimates import decimal

Reply: TypeAlias = Literal["yes", "not found", "unknown"]
Question: TypeAlias = Literal["attribute", "linkage", "membership"]
Row = Mapping[str, Any]

QUESTIONS: Mapping[Question, str] = {
    "attribute": "Can protected columns be read from the vectors? Then whoever has the vectors can guess such a column "
    "of a person, even though it is in no file: habits reveal it.",
    "linkage": "Can two parts of one history be matched across files? Then two files with vectors of the same people, "
    "under different keys and from different events, can be put together, and new keys (pseudonyms) do not prevent "
    "that. Contrastive methods such as CoLES are trained to make two parts of one history alike.",
    "membership": "Does it show that somebody was in the training data? Then whoever has the model can tell who was, "
    "where that may itself be a secret, such as being a patient.",
}
"""What each question means."""
PERSONAL = "Treat vectors as personal data: the same access rules, retention and deletion as for the events."
MEASURES = (
    "Leave columns out of the training that you may not use, and audit again, because other habits can reveal them.",
    "Share scores or predictions in place of vectors, where these are enough; do not publish vectors.",
    "Do not rely on new keys to keep two files of vectors apart.",
    "Delete a person's vectors, states and predictions with the events; train again where the law asks it.",
)
LIMITS = (
    "The audit tries one attack or two for each question; somebody with more knowledge or effort may find more.",
    "It does not ask whether events can be reconstructed from vectors, and gives no guarantee such as differential "
    "privacy.",
    "It is about these events and these people; another population or a later training needs another audit.",
)


def unanswered(question: Question, name: str, sentence: str) -> Row:
    """Return a question without an answer, and the sentence that says why."""
    cells: Row = {"beyond": None, "metric": "", "score": None, "chance": None, "others": {}, "sentence": sentence}
    return {"question": question, "name": name, "answer": "unknown", **cells}


def judged(
    question: Question,
    name: str,
    claims: tuple[str, str],
    how: str,
    score: Estimate,
    others: Mapping[str, float],
    *,
    beyond: bool,
    more: str = "",
    metric: str = "auroc",
    chance: float = 0.5,
) -> Row:
    """Return the answer to one question: yes if the interval of the score lies above chance; see `audit` for the cells.

    Args:
        question: Which question it answers.
        name: The protected column, or the way of the attack.
        claims: What is so if the answer is yes, and what if it is not.
        how: What was measured, in words.
        score: The score of the vectors.
        others: The scores of simple features of the same events, by name.
        beyond: Whether the vectors reveal more than these.
        more: What follows a yes, in words.
        metric: The name of the score.
        chance: The score of guessing.
    """
    is_above = score.low > chance
    reply: Reply = "yes" if is_above else "not found"
    cells = {"question": question, "name": name, "answer": reply, "beyond": is_above and beyond, "metric": metric}
    most = f"a score above {decimal(largest_leak(score, chance))} can be excluded"
    sentence = f"{claims[0]}: {how}.{more}" if is_above else f"{claims[1]}: {how}; {most}."
    return {**cells, "score": score, "chance": chance, "others": others, "sentence": sentence}


def answer(findings: Sequence[Row], facts: Mapping[str, Any], notes: Sequence[str]) -> Answer:
    """Return the findings, their sentences and what they mean, what can be done, and what is not covered."""
    rows = [{name: cell for name, cell in each.items() if name != "sentence"} for each in findings]
    asked = dict.fromkeys(each["question"] for each in findings)
    sentences = [each["sentence"] for each in findings] + [QUESTIONS[question] for question in asked]
    advice = [*(f"What can be done: {each}" for each in MEASURES), *(f"Not covered: {each}" for each in LIMITS)]
    scored = [row for row in rows if row["score"] is not None]
    caption = (
        "Dots are scores of the vectors with intervals, orange where the answer is yes. The line is chance, the "
        "diamond the best of the simple features of the same events."
    )
    drawn = Chart("The scores", caption, partial(_draw, scored), charts.lines_height(len(scored)))
    figures = (drawn,) if scored else ()
    lead = (
        "An embedding describes how someone lives. This page says what the vectors of one model reveal about people, "
        "as far as an audit can find it."
    )
    return Answer(
        _verdict(rows), {"findings": rows}, (*sentences, *advice, *notes), figures, facts,
        title="What do the vectors reveal?", lead=lead,
    )  # fmt: skip


def _verdict(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return what the vectors reveal, whether simple features do so too, and which questions have no answer."""
    leaks = [row for row in rows if row["answer"] == "yes"]
    asked, columns = {row["question"] for row in leaks}, [row for row in leaks if row["question"] == "attribute"]
    others = {"linkage": "link two parts of one history", "membership": "show who was in the training data"}
    parts = [f"reveal {_with_and([repr(row['name']) for row in columns])}"] if columns else []
    parts += [text for question, text in others.items() if question in asked]
    lines = [f"The vectors {_with_and(parts)}."] if parts else ["No leak was found, as far as the audit can see."]
    if leaks:
        beyond = dict.fromkeys(
            repr(row["name"]) if row["question"] == "attribute" else row["question"] for row in leaks if row["beyond"]
        )
        simple = "simple features of the same events"
        where = f"They go beyond {simple} in {_with_and([*beyond])}."
        lines.append(where if beyond else f"They are not shown to go beyond {simple}.")
    if unknown := dict.fromkeys(row["question"] for row in rows if row["answer"] == "unknown"):
        what = ["some protected columns" if question == "attribute" else question for question in unknown]
        lines.append(f"The audit has no answer about {_with_and(what)}.")
    return (*lines, PERSONAL)


def _with_and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _draw(rows: Sequence[Row], axes: Axes) -> None:
    """Draw the scores with intervals, beside chance and the best of the simple features."""
    looks = [Look(ORANGE if row["answer"] == "yes" else BLUE) for row in rows]
    charts.dots(
        axes,
        [row["name"] for row in rows],
        Series([row["chance"] for row in rows], "chance", Look(GREEN, "|")),
        Series([max(row["others"].values(), default=None) for row in rows], "best simple features", Look(PINK, "D")),
        Series([row["score"] for row in rows], "vectors", looks),
        across="score (AUROC, accuracy or R²); higher reveals more",
        apart=False,
    )
