"""Sentences about histories, which are true of their events and need no training.

::

    descriptions  `describe`: the sentences of each history, the most telling ones first
    histories     what templates read: one row per event, and one per history; the limits with which these are compared
    wording       bands of numbers, words for shares, and other parts of sentences
    code_facts    sentences about codes: frequent ones, variety, the first and the last
    order_facts   sentences about codes in time: what comes before what, when a code comes, what changes
    time_facts    sentences about times: silences, intervals, bursts, hours and weekdays
    number_facts  sentences about numbers
    templates     `TEMPLATES`, all of these functions in order
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.describing.descriptions import describe as describe

import_at_first_use(__name__, {"eventvec.describing.descriptions": "describe"})
