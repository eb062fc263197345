"""A run: a trained method with its schema, its configuration and its record, in memory or as a folder.

::

    run         `Run`, and how one ends and is loaded
    run_files   the files of a run folder, read and written
    run_start   how a run begins
    label_samples  samples of what a run learned from, by which a copy of a label is recognised
    building    the method of a run, whose shapes are compared with the weights before anything is allocated
    feature_tables  `features`: a run without training, and its table with named columns
    cards       `card`: the model card of a run or of a run folder
    model_card  the model card as Markdown
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.runs.cards import card as card
    from eventvec.runs.feature_tables import features as features
    from eventvec.runs.run import LEARNED as LEARNED
    from eventvec.runs.run import Record as Record
    from eventvec.runs.run import Run as Run
    from eventvec.runs.run import check_run as check_run
    from eventvec.runs.run import finish as finish
    from eventvec.runs.run import load as load
    from eventvec.runs.run_files import versions as versions
    from eventvec.runs.run_start import schema_of as schema_of
    from eventvec.runs.run_start import start as start

import_at_first_use(
    __name__,
    {
        "eventvec.runs.cards": "card",
        "eventvec.runs.feature_tables": "features",
        "eventvec.runs.run": "LEARNED Record Run check_run finish load",
        "eventvec.runs.run_files": "versions",
        "eventvec.runs.run_start": "schema_of start",
    },
)
