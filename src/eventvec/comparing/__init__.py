"""Several methods and encoders under one budget, in the same folds, and which of them to use.

::

    side_by_side  `compare`: trains the arms, scores them beside hand-crafted features, and resumes what was killed
    arms          what is compared: methods and encoders by name, or tables of a configuration
    winner        one winner, or none and the reason, with intervals that allow for the choice
    compared      `Comparison`: scores, costs and the answer, as plain values and as tables
    compare_page  the comparison as an HTML page, with a picture of score against cost
"""

from __future__ import annotations

from eventvec.comparing.compare_page import page
from eventvec.comparing.compared import Comparison
from eventvec.comparing.side_by_side import compare

__all__ = ["Comparison", "compare", "page"]
