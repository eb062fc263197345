"""Labels in time.

::

    horizons    `future_labels`: what follows times of the calendar, as labels
    future_options  its options
    conditions  which events count
    rules       the options as text, which each row of the table has
    known_labels  the labels that are known as of some times, from histories that end there
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.labels.horizons import future_labels as future_labels

import_at_first_use(
    __name__,
    {
        "eventvec.labels.horizons": "future_labels",
    },
)
