"""The one shape of all answers, and how it looks in a terminal, in a notebook, as JSON and as a page.

::

    answer    `Answer`: a decision of a few lines, and everything that was computed
    printing  tables and sentences for a terminal and a notebook
    charts    `Chart`: a figure and the sentence below it, and the colour and shape of each set of features
    page      self-contained HTML pages
"""

from __future__ import annotations

from eventvec.answers.answer import Answer
from eventvec.answers.charts import Chart

__all__ = ["Answer", "Chart"]
