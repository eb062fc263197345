"""Labels in time.

::

    horizons    `future_labels`: what follows times of the calendar, as labels
    future_options  its options
    conditions  which events count
    rules       the options as text, which each row of the table has
    known_labels  the labels that are known as of some times, from histories that end there
"""

from eventvec.first_use import at_first_use

with at_first_use(__name__):
    from eventvec.labels.horizons import future_labels as future_labels
