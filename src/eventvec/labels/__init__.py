"""Labels in time.

::

    horizons    `future_labels`: what follows times of the calendar, as labels
    conditions  which events count
"""

from eventvec.labels.horizons import future_labels

__all__ = ["future_labels"]
