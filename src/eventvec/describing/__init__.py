"""Sentences about histories, which are true of their events and need no training.

::

    descriptions  `describe`: the sentences of each history, the most telling ones first
    histories     what templates read: one row per event, and one per history
    templates     the sentences, one function for each kind of fact
"""

from eventvec.describing.descriptions import describe

__all__ = ["describe"]
