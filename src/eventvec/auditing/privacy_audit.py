"""`audit`: what the vectors of a model reveal about people, in three questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eventvec.answers import Answer
from eventvec.auditing.attributes import attribute_findings
from eventvec.auditing.audit_options import AuditOptions
from eventvec.auditing.findings import Row, answer
from eventvec.auditing.linkage import linkage_finding
from eventvec.auditing.membership import membership_findings
from eventvec.dataset import Dataset, check_entities
from eventvec.embedding import embed
from eventvec.errors import ConfigError, no_column, shown
from eventvec.models import Model, check_model
from eventvec.options import accepts, gather
from eventvec.tables.sources import Tabular, columns_of

LEVEL = 0.05
"""The false-alarm rate of the audit, for each of the three questions."""


@accepts(AuditOptions)
def audit(
    model: Model,
    events: Dataset | Tabular,
    protected: Tabular | None = None,
    *,
    progress: Callable[[int, int, str], None] | None = None,
    **options: Any,
) -> Answer:
    """Return what the vectors of a model reveal: protected columns, whose two files are, and who was trained on.

    *Attributes.* Each protected column is predicted from the vectors in a cross-validation, beside simple features of
    the same events (aggregates, hand-crafted features, the number of events, an event encoder without training).
    *Linkage.* Each history is cut into two halves, which are embedded as if they stood under different keys in two
    files; it is counted how often the halves find each other. *Membership.* Entities that the model held out are
    compared with those that it was trained on. This needs a model with held-out entities, and all events of its
    training.

    A question is answered with `yes` where an interval lies above chance. The intervals hold together for all columns,
    and for all attacks, of a question, so a model without a leak is answered with `yes` in at most 5 % of audits for
    each question. `not found` comes with the largest leak that the interval allows. Other attacks can reveal more.

    Relations: `evaluate` scores labels for their own sake; this function asks what should not be there.

    Args:
        model: The model.
        events: The events of its entities, held-out ones included, as `Model.read` takes them.
        protected: A table with the key and protected columns, such as age or sex. Without it, attributes are left out.
        progress: Called with the number of questions that are done, of all questions, and what comes next.
        options: The fields of `AuditOptions` (columns, models, folds, seed).

    Returns:
        An answer with a row for each column and attack: the `question` (`attribute`, `linkage` or `membership`), the
        `name` of the column or the attack, the `answer` (`yes`, `not found` or `unknown`), whether the vectors
        reveal more than simple features of the same events (`beyond`), the `metric`, the `score` of the vectors with
        its interval, that of guessing (`chance`), and those of simple features (`others`). The notes begin with a
        sentence for each, then say what the questions mean, what can be done, and what the audit does not cover.

    Raises:
        ConfigError: If an argument has another type, or columns are named without a table.
        DataError: If the events cannot be used, or a column is absent.

    Example:
        >>> import numpy as np
        >>> import polars as pl
        >>> import eventvec as ev
        >>> rng = np.random.default_rng(0)
        >>> card = np.repeat(np.arange(120), 12)
        >>> shop = np.where(rng.random(len(card)) < np.where(card % 2, 0.9, 0.1), "bar", "gym")
        >>> events = pl.DataFrame({"card": card, "day": rng.integers(0, 99, len(card)), "shop": shop})
        >>> data = ev.read(events, key="card", time="day", categorical=["shop"], holdout=0.4)
        >>> run = ev.fit(data, method="coles", epochs=1)
        >>> people = pl.DataFrame({"card": np.arange(120), "old": np.arange(120) % 2 == 1})
        >>> result = ev.audit(run, events, people, models=["logistic_regression"])
        >>> result.rows[0]["name"], result.rows[0]["answer"]
        ('old', 'yes')
    """
    check_model(model)
    chosen = gather(options, AuditOptions)
    if chosen.columns is not None and protected is None:
        raise ConfigError("columns are named without the table that has them; give it: protected= (--protected)")
    data = model.read(events)
    check_entities(data)
    names = [] if protected is None else _columns(protected, chosen.columns, data.schema.key_out)
    steps = ["embedding", "attributes", "linkage", "membership"]

    def step(done: int) -> None:
        if progress:
            progress(done, len(steps), steps[done] if done < len(steps) else "")

    step(0)
    z = embed(model.representation, data)
    findings: list[Row] = []
    notes: list[str] = list(data.notes)
    step(1)
    if protected is not None:
        some, more = attribute_findings(z, data, protected, names, chosen, LEVEL)
        findings, notes = findings + some, notes + more
    step(2)
    findings.append(linkage_finding(model.representation, data.sequences, data.schema, seed=chosen.seed, level=LEVEL))
    step(3)
    some, more = membership_findings(model, z, data, seed=chosen.seed, level=LEVEL)
    step(4)
    if model.beside:
        parts = " and ".join(model.beside)
        notes.append(f"The vectors also have the parts {parts}, which repeat features of the events.")
    events_read = data.sequences.total
    facts = {"run": model.id, "entities": len(data), "events": events_read, "level": LEVEL, "seed": chosen.seed}
    return answer(findings + some, facts, tuple(dict.fromkeys(notes + more)))


def _columns(protected: Tabular, columns: Sequence[str] | None, key: str) -> list[str]:
    """Return the names of the protected columns."""
    if isinstance(columns, str):
        raise ConfigError(f"columns must be a list of column names, got the text {shown(columns)}")
    present = columns_of(protected)
    names = [name for name in present if name != key] if columns is None else list(columns)
    for name in names:
        if present and name not in present:
            raise ConfigError(no_column(name, present, "the header", "the table of protected columns"))
    if not names:
        raise ConfigError(
            "no protected column is named, or the table of them has no column besides the key; give one at least"
        )
    return names
