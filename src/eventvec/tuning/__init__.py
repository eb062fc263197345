"""A search for settings with Optuna, and whether it paid on entities that it never saw.

::

    study   `tune`: trains and scores the trials, resumes what was killed, and tests the best settings
    tune_options  its options
    space   which settings are searched, and which of their values are tried
    trials  which settings come next, and the file of the trials that are over
    scores  the labels, and the scores of vectors on them: in cross-validation for the search, held out for the test
    tuned   the decision in words
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.tuning.study import tune as tune

import_at_first_use(__name__, {"eventvec.tuning.study": "tune"})
