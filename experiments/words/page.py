"""The tables of the page, from the stored results."""

from __future__ import annotations

from experiments.stored_results import Results, Row, text

SETS = {"shop": "`shop`: {} households", "stays": "`stays`: {} stays in intensive care"}
READERS = ("chance", "bag of words", "described, BM25", "described, MiniLM")
SHOWN = (
    "pressure was taken with a cuff to begin with, then an arterial line went in",
    "there must be a dog at home",
    "barely passes any water",
    "watched far more closely at the start than at the end",
    "lives on frozen pizza and soda",
    "things got hectic on day two: many more measurements than on day one",
    "nobody recorded anything for hours at a stretch",
    "put on the ventilator only later, not when the patient arrived",
    "shops during the working week and avoids weekends",
    "as regular as clockwork, roughly once a week",
)
"""The questions of the second table, which were chosen from an earlier run."""


def human(results: Results) -> list[Row]:
    """Return the mean of each set, and its difference to the bag of words, bold where its interval is above 0."""
    lines = list[Row]()
    for name, title in SETS.items():
        mean, difference = (row for row in results["human"] if row["set"] == name and row["relevant"] is None)
        number = mean["question"].rpartition(", ")[2].removesuffix(" histories")
        lines.append({"set, 30 questions each": title.format(number), **{each: mean[each] for each in READERS}})
        against = {each: difference[each].replace("-", "−") for each in READERS}
        bold = {each: f"**{value}**" if "(+" in value else value for each, value in against.items()}
        lines.append({"set, 30 questions each": "− bag of words", **bold, "bag of words": ""})
    return lines


def questions(results: Results) -> list[Row]:
    """Return some questions with the recall of each reader."""
    rows = {row["question"]: row for row in results["human"]}
    return [
        {
            "question": each, "set": rows[each]["set"], "relevant": rows[each]["relevant"],
            **{reader.removeprefix("described, ").removesuffix(" of words"): text(rows[each][reader], 2)
               for reader in READERS},
        }
        for each in SHOWN
    ]  # fmt: skip


TABLES = {"human": human, "questions": questions}
