"""Several methods and encoders under one budget, or several runs, in the same folds, and which of them to use.

::

    side_by_side  `compare`: trains the arms, scores them beside hand-crafted features, and resumes what was killed
    compare_options  its options
    plans         what `compare` shares with `tune`: labels, a folder with a plan, a budget, progress
    arms          what is compared: methods and encoders by name, tables of a configuration, or runs that exist
    compared      the answer: one winner or those that are level, a row for each arm, and score against cost
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.comparing.side_by_side import compare as compare

import_at_first_use(__name__, {"eventvec.comparing.side_by_side": "compare"})
