"""The answer of a search: which settings to use, the trials, and the test of the best settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from eventvec.evaluation.result import Evaluation
from eventvec.learners.metrics import METRIC_NAMES

BEST, DEFAULTS = "best", "defaults"
"""The names of the two sets of vectors that are tested."""
SEARCHED = (
    "The scores of the trials are those of the search, which chose by them, so the highest is biased upward; all other "
    "scores are of entities that the search never saw.",
    "The interval is about other entities, not other seeds.",
)


def decision(
    evaluation: Evaluation, settings: Mapping[str, Any], entities: int, others: int
) -> tuple[tuple[str, ...], bool]:
    """Return the answer in words, and whether the best settings are to be used.

    The scores are those on the `entities` that the search never saw, after trials of `others` than the defaults;
    `settings` are the best ones, as far as they differ from the defaults.
    """
    scores, metric = {result.features: result.main for result in evaluation.results}, METRIC_NAMES[evaluation.metric]
    defaults = f"{scores[DEFAULTS].estimate} {metric} on {entities:,} entities that the search never saw"
    if BEST not in scores:
        return (f"Keep the defaults: {defaults}.", f"None of {others} other settings scored higher."), False
    best, lead = scores[BEST].estimate, (scores[BEST] - scores[DEFAULTS]).estimate
    named = ", ".join(f"{name}={json.dumps(value)}" for name, value in settings.items())
    if lead.place == "ahead":
        return (f"Use {named}: {best}, the defaults {defaults} ({lead}).",), True
    side = "behind" if lead.place == "behind" else "not ahead"
    line = f"The best of {others} other settings, {named}, are {side}: {best} ({lead})."
    return (f"Keep the defaults: {defaults}.", line), False
