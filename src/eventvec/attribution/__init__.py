"""What drives a vector: how much a score, a prediction or a vector changes when a part of the events is left out.

::

    influences       `influence`: the fields and periods of a run's events, on labels or without
    left_out         the events without a field, and without a period
    vectors_without  the vectors from all events, and without each field and period
    score_changes    the change of a cross-validated score, and of the prediction for one entity
    movements        how far vectors move, beside the distance between two entities
    changes          the answer: its rows, what matters most, and the chart
"""

from __future__ import annotations

from eventvec.attribution.influences import InfluenceOptions, influence

__all__ = ["InfluenceOptions", "influence"]
