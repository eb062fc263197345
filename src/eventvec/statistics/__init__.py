"""Intervals, resampling and corrections for several questions, which all results share.

::

    estimates   `Estimate`: a number with its interval; `Scores`: one number per fold, from which estimates are made
    intervals   the interval of a mean over folds; quantiles
    corrections intervals that hold together (Bonferroni), and corrected p-values (Holm)
    resampling  how often each entity counts in each resampled test set
    entity_errors  means, ratios and rates of rows, with intervals over their entities
    areas       areas under the ROC curve
    decision_costs  what acting on some rows costs, and the threshold from which it pays
"""

from __future__ import annotations

from eventvec.statistics.estimates import Estimate, Scores

__all__ = ["Estimate", "Scores"]
