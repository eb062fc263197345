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

Features of a history in words are beside them::

    feature_words  `feature_words`: a phrase for each feature, by its name
    feature_row    what is known of one row when its features are put into words
    time_words     phrases about times and the number of events
    number_words   phrases about numbers, also those of events with one code
    code_words     phrases about codes and elements of lists
    other_words    phrases about static columns and earlier labels
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.describing.descriptions import describe as describe

import_at_first_use(__name__, {"eventvec.describing.descriptions": "describe"})
