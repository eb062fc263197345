"""A privacy audit as one self-contained HTML page, for a data protection officer."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from eventvec.auditing.findings import HEAD, MARKS, QUESTIONS, Audit, Finding
from eventvec.files import path_only, write_text
from eventvec.reporting import Table
from eventvec.reporting.charts import PALETTE
from eventvec.reporting.document import filled_template

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

    Args:
        audit: The result of `audit`.
        title: The title of the page.

    Raises:
        ConfigError: If plotly or jinja2 is not installed.
    """
    questions = [
        {
            "title": text,
            "meaning": MEANINGS[question],
            "answers": [(f, MARKS[f.answer]) for f in audit.findings if f.question == question],
        }
        for question, text in QUESTIONS.items()
        if any(f.question == question for f in audit.findings)
    ]
    scored = [finding for finding in audit.findings if finding.score is not None]
    caption = (
        f"The numbers in brackets are intervals. A run without a leak is answered with yes in at most "
        f"{audit.level:.0%} of audits for each question."
    )
    facts = [
        ("run", audit.run), ("people", f"{audit.entities:,}"), ("events", f"{audit.events:,}"),
        ("seed", str(audit.seed)),
    ]  # fmt: skip
    return filled_template(
        "audit.html",
        folder=Path(__file__).parent,
        title=title,
        lead="An embedding describes how someone lives. This page says what the vectors of one model reveal about the "
        "people in the data, as far as an audit can find it.",
        verdict=audit.verdict,
        facts=facts,
        questions=questions,
        measures=MEASURES,
        limits=LIMITS,
        notes=audit.notes,
        height=110 + 34 * len(scored),
        scored=bool(scored),
        tables=[Table("All scores", HEAD, audit.rows(), caption)],
        charts={"figures": {"leaks": leaks_figure(scored)} if scored else {}, "map": None},
    )


def write_page(audit: Audit, path: Path | str) -> None:
    """Write the page to a file, which appears whole or not at all and has mode 0600, with missing folders above it.

    Args:
        audit: The result of `audit`.
        path: The file to write.

    Raises:
        ConfigError: If plotly or jinja2 is not installed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_page(Audit("3f2a", 90, 800, 0.05, 0, (), ()), f"{folder}/audit.html")
        ...     [path.name for path in Path(folder).iterdir()]
        ['audit.html']
    """
    path = path_only(path)
    text = page(audit)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def leaks_figure(findings: list[Finding]) -> dict[str, Any]:
    """Return a plotly figure of the scores with intervals, beside chance and the best of the simple features.

    Args:
        findings: Answers with scores.
    """
    lines = list(range(len(findings)))
    names = [html.escape(finding.name) for finding in findings]
    error = {
        "type": "data", "symmetric": False, "thickness": 2, "width": 4,
        "array": [(f.high or 0) - (f.score or 0) for f in findings],
        "arrayminus": [(f.score or 0) - (f.low or 0) for f in findings],
    }  # fmt: skip
    colours = [PALETTE[1] if f.answer == "yes" else PALETTE[0] for f in findings]
    vectors = {
        "type": "scatter", "mode": "markers", "name": "vectors", "x": [f.score for f in findings], "y": lines,
        "error_x": error, "marker": {"size": 11, "color": colours}, "hovertemplate": "vectors: %{x:.3f}<extra></extra>",
    }  # fmt: skip
    chance = {
        "type": "scatter", "mode": "markers", "name": "chance", "x": [f.chance for f in findings], "y": lines,
        "marker": {"size": 13, "symbol": "line-ns-open", "color": PALETTE[2]},
        "hovertemplate": "chance: %{x:.3f}<extra></extra>",
    }  # fmt: skip
    simple = {
        "type": "scatter", "mode": "markers", "name": "best simple features", "y": lines,
        "x": [max(f.others.values()) if f.others else None for f in findings],
        "marker": {"size": 9, "symbol": "diamond-open", "color": PALETTE[3]},
        "hovertemplate": "simple features: %{x:.3f}<extra></extra>",
    }  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "score (AUROC, accuracy or R²); higher reveals more"}},
        "yaxis": {"tickvals": lines, "ticktext": names, "range": [len(lines) - 0.5, -0.5], "zeroline": False},
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        "margin": {"l": 10, "r": 14, "t": 34, "b": 50},
    }
    return {"data": [chance, simple, vectors], "layout": layout}
