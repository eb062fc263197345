"""Evaluation of embeddings on labels.

::

    on_labels   `evaluate`: embeddings and a table of labels, beside hand-crafted features
    evaluation_options  the options of both
    scoring     `score_features`: the same models, folds and shares of the labels for each set of features
    fold_scores the scores of each model on each set of features, and on two together, fold by fold
    joined_labels  the join of labels and embeddings by key, which counts every row that does not fit
    earlier_labels  the entity's own earlier labels, those that were known by the time of a row, as features
    caller_features  a table of features that the caller made, row by row
    leaks       checks that no embedding contains later events and that all features describe the same events
    task        the task of a column of labels: binary, multiclass or numeric; several labels
    protocols   which labels train the models and which test them: cross-validation, holdout, a split by date
    folds       training and test positions of these, and shares of the labels
    models      boosted trees, a linear model and nearest neighbours, with fixed settings
    fitted      these models after training
    stacking    boosted trees and a linear model, weighted inside the training part
    part_sets   the parts of an embedding, alone and left out
    parallel    work side by side in threads
    baselines   features without training: the number of events, an untrained event encoder
    metrics     scores of predictions
    resampled_scores  scores on resampled test entities, of which intervals are made
    inputs      checks of features, groups and options
    result      the scores, and the tables of the answer that is made of them
    conclusion  the decision in a few lines
    evaluation_charts  the chart of the scores
    suspicion   the sentence before it, if the result is too good to be true

Nothing is chosen by the scores that are shown: weights of models come from inside the training parts.
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.evaluation.evaluation_options import EvaluationOptions as EvaluationOptions
    from eventvec.evaluation.evaluation_options import LabelOptions as LabelOptions
    from eventvec.evaluation.joined_labels import JoinedLabels as JoinedLabels
    from eventvec.evaluation.joined_labels import join_labels as join_labels
    from eventvec.evaluation.metrics import METRICS as METRICS
    from eventvec.evaluation.metrics import measure as measure
    from eventvec.evaluation.models import MODELS as MODELS
    from eventvec.evaluation.on_labels import evaluate as evaluate
    from eventvec.evaluation.scoring import Unfinished as Unfinished
    from eventvec.evaluation.scoring import score_features as score_features
    from eventvec.evaluation.task import target as target
    from eventvec.methods.retrieval import Retrieval as Retrieval
    from eventvec.methods.retrieval import score_retrieval as score_retrieval

import_at_first_use(
    __name__,
    {
        "eventvec.evaluation.evaluation_options": "EvaluationOptions LabelOptions",
        "eventvec.evaluation.joined_labels": "JoinedLabels join_labels",
        "eventvec.evaluation.metrics": "METRICS measure",
        "eventvec.evaluation.models": "MODELS",
        "eventvec.evaluation.on_labels": "evaluate",
        "eventvec.evaluation.scoring": "Unfinished score_features",
        "eventvec.evaluation.task": "target",
        "eventvec.methods.retrieval": "Retrieval score_retrieval",
    },
)
