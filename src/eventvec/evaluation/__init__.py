"""Evaluation of embeddings on labels.

::

    on_labels   `evaluate`: embeddings and a table of labels, beside hand-crafted features
    evaluation_options  the options of both
    scoring     `score_features`: the same models, folds and shares of the labels for each set of features
    fold_scores the scores of each model on each set of features, and on two together, fold by fold
    leaks       checks that no embedding contains later events and that all features describe the same events
    protocols   which labels train the models and which test them: cross-validation, holdout, a split by date
    part_sets   the parts of an embedding, alone and left out
    baselines   features without training: the number of events, an untrained event encoder
    result      the scores, and the tables of the answer that is made of them
    conclusion  the decision in a few lines
    evaluation_charts  the chart of the scores
    held_out_measures  log loss, calibration, lift, errors and groups as tables, and the sentence that tells most
    set_measures  these of all sets of features, and of the best one
    measure_charts  the reliability diagram and the chart of the lift
    suspicion   the sentence before it, if the result is too good to be true

Nothing is chosen by the scores that are shown: weights of models come from inside the training parts.
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.evaluation.evaluation_options import EvaluationOptions as EvaluationOptions
    from eventvec.evaluation.evaluation_options import LabelOptions as LabelOptions
    from eventvec.evaluation.on_labels import evaluate as evaluate
    from eventvec.evaluation.scoring import Unfinished as Unfinished
    from eventvec.evaluation.scoring import score_features as score_features

import_at_first_use(
    __name__,
    {
        "eventvec.evaluation.evaluation_options": "EvaluationOptions LabelOptions",
        "eventvec.evaluation.on_labels": "evaluate",
        "eventvec.evaluation.scoring": "Unfinished score_features",
    },
)
