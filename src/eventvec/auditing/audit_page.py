"""A privacy audit as one self-contained HTML page, for a data protection officer."""

from __future__ import annotations

from eventvec.auditing.findings import HEAD, MARKS, QUESTIONS, Audit, Finding
from eventvec.reporting.charts import PALETTE, Chart, Figure, dots, error_bars, figure, lines_of, titled
from eventvec.reporting.document import Card, PageSection, PageTable, result_page

MEANINGS = {
    "attribute": "Whoever has the file of vectors can guess such a column of a person, even though it is in no file. "
    "Habits reveal it. The score compares such guesses with chance.",
    "linkage": "Two files with vectors of the same people, under different keys and from different events, can be put "
    "together. New keys (pseudonyms) do not prevent that. Contrastive methods such as CoLES are trained to make "
    "two parts of one history alike, so that this is what they are for.",
    "membership": "Whoever has the model can tell whether a person's events were used to train it. Where being in the "
    "training data is itself a secret, such as being a patient, this reveals it.",
}
MEASURES = (
    "Treat vectors as personal data: the same access rules, retention and deletion as for the events.",
    "Leave columns out of the training that you may not use; then audit again, because other habits can reveal them.",
    "Share scores or predictions in place of vectors, where these are enough.",
    "Do not rely on new keys to keep two files of vectors apart; do not publish vectors.",
    "Delete a person's vectors, states and predictions when the events are deleted; train again where the law asks it.",
)
LIMITS = (
    "The audit tries one attack or two for each question. Somebody with more knowledge or effort may find more.",
    "It does not ask whether events can be reconstructed from vectors, and gives no guarantee such as differential "
    "privacy.",
    "It speaks of these events and these people. Another population or a later training needs another audit.",
)


def page(audit: Audit, title: str = "What do the vectors reveal?") -> str:
    """Return the page as HTML text of about 5 MB, nearly all of it plotly.js.

    Raises:
        ConfigError: If plotly or jinja2 is not installed.
    """
    answers = []
    for question, text in QUESTIONS.items():
        found = [(MARKS[f.answer], f.sentence) for f in audit.findings if f.question == question]
        if found:
            answers.append(Card(text, found, [MEANINGS[question]]))
    sections = [PageSection("The answers", answers)]
    if scored := [finding for finding in audit.findings if finding.score is not None]:
        sentence = (
            "Dots are scores of the vectors with intervals, orange where the answer is yes. The line is chance, the "
            "diamond the best of the simple features of the same events."
        )
        chart = Chart("leaks", leaks_figure(scored), sentence, 110 + 34 * len(scored))
        sections.append(PageSection("The scores", [Card(chart=chart)]))
    caption = (
        f"The numbers in brackets are intervals. A run without a leak is answered with yes in at most "
        f"{audit.level:.0%} of audits for each question."
    )
    sections += [
        PageSection.of(PageTable("All scores", HEAD, audit.rows(), caption)),
        PageSection("What can be done", [Card(listed=MEASURES)]),
        PageSection("What this audit does not cover", [Card(listed=LIMITS, notes=audit.notes)]),
    ]
    lead = (
        "An embedding describes how someone lives. This page says what the vectors of one model reveal about the "
        "people in the data, as far as an audit can find it."
    )
    facts = [
        ("run", audit.run),
        ("people", f"{audit.entities:,}"),
        ("events", f"{audit.events:,}"),
        ("seed", str(audit.seed)),
    ]
    return result_page(title, lead, audit.verdict, facts, sections)


def leaks_figure(findings: list[Finding]) -> Figure:
    """Return a plotly figure of the scores with intervals, beside chance and the best of the simple features."""
    lines = list(range(len(findings)))
    scores = [f.score or 0 for f in findings]
    above = [(f.high or 0) - score for f, score in zip(findings, scores, strict=True)]
    below = [score - (f.low or 0) for f, score in zip(findings, scores, strict=True)]
    simple = [max(f.others.values()) if f.others else None for f in findings]
    chance_marker = {"size": 13, "symbol": "line-ns-open", "color": PALETTE[2]}
    simple_marker = {"size": 9, "symbol": "diamond-open", "color": PALETTE[3]}
    marker = {"size": 11, "color": [PALETTE[1] if f.answer == "yes" else PALETTE[0] for f in findings]}
    bars = error_bars(above, arrayminus=below, symmetric=False)
    traces = [
        dots("chance", [f.chance for f in findings], lines, "chance: %{x:.3f}<extra></extra>", marker=chance_marker),
        dots("best simple features", simple, lines, "simple features: %{x:.3f}<extra></extra>", marker=simple_marker),
        dots("vectors", scores, lines, "vectors: %{x:.3f}<extra></extra>", error_x=bars, marker=marker),
    ]
    x_axis = titled("score (AUROC, accuracy or R²); higher reveals more")
    return figure(traces, x_axis, lines_of([finding.name for finding in findings]), left=10)
