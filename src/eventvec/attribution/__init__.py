"""What drives a vector: how much a score, a prediction or a vector changes when a part of the events is left out.

::

    influences       `influence`: the fields and periods of a model's events, on labels or without
    influence_options  its options
    left_out         the events without a field, and without a period
    vectors_without  the vectors from all events, and without each field and period
    score_changes    the change of a cross-validated score, and of the prediction for one entity
    movements        how far vectors move, beside the distance between two entities
    changes          the answer: its rows, what matters most, and the chart
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.attribution.influence_options import InfluenceOptions as InfluenceOptions
    from eventvec.attribution.influences import influence as influence

import_at_first_use(
    __name__,
    {"eventvec.attribution.influence_options": "InfluenceOptions", "eventvec.attribution.influences": "influence"},
)
