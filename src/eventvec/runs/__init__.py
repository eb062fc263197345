"""A run: a trained method with its schema, its configuration and its record, in memory or as a folder.

::

    run         `Run`, and how one ends, is loaded and gets its card
    run_files   the files of a run folder, read and written; how a run begins
    building    the method of a run, whose shapes are compared with the weights before anything is allocated
    feature_tables  `features`: a run without training, and its table with named columns
    model_card  the model card as Markdown
"""

from __future__ import annotations

from eventvec.runs.feature_tables import features
from eventvec.runs.run import LEARNED, Record, Run, card, check_run, finish, load
from eventvec.runs.run_files import schema_of, start, versions

__all__ = [
    "LEARNED",
    "Record",
    "Run",
    "card",
    "check_run",
    "features",
    "finish",
    "load",
    "schema_of",
    "start",
    "versions",
]
