"""A model: a schema, named blocks of features and heads by label, in memory or as a folder.

::

    model       `Model`, and how one ends and is loaded
    learned     the block of a trained encoder with its method, and the network of one label
    head        what predicts a label from blocks
    label_columns  the columns of predictions
    model_files the files of a model folder, read and written
    head_files  heads in a model folder
    building    the blocks of a model, whose shapes are compared with the tensors before anything is allocated
    run_start   how a model begins
    label_samples  samples of what a model learned from, by which a copy of a label is recognised
    feature_tables  `features`: a model without training, and its table with named columns
    cards       `card`: the model card of a model or of a model folder
    model_card  the model card as Markdown
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.models.cards import card as card
    from eventvec.models.feature_tables import features as features
    from eventvec.models.learned import LEARNED as LEARNED
    from eventvec.models.model import Model as Model
    from eventvec.models.model import Record as Record
    from eventvec.models.model import check_model as check_model
    from eventvec.models.model import finish as finish
    from eventvec.models.model import load as load
    from eventvec.models.model_files import versions as versions
    from eventvec.models.run_start import schema_of as schema_of
    from eventvec.models.run_start import start as start

import_at_first_use(
    __name__,
    {
        "eventvec.models.cards": "card",
        "eventvec.models.learned": "LEARNED",
        "eventvec.models.feature_tables": "features",
        "eventvec.models.model": "Model Record check_model finish load",
        "eventvec.models.model_files": "versions",
        "eventvec.models.run_start": "schema_of start",
    },
)
