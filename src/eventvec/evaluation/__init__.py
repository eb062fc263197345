"""Evaluation of embeddings on labels.

::

    on_labels   `evaluate`: embeddings and a table of labels, beside hand-crafted features
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

from __future__ import annotations

from eventvec.evaluation.joined_labels import JoinedLabels, join_labels
from eventvec.evaluation.metrics import METRICS, measure
from eventvec.evaluation.models import MODELS
from eventvec.evaluation.on_labels import LabelOptions, evaluate
from eventvec.evaluation.scoring import EvaluationOptions, Unfinished, score_features
from eventvec.evaluation.task import target
from eventvec.methods.retrieval import Retrieval, score_retrieval

__all__ = [
    "METRICS",
    "MODELS",
    "EvaluationOptions",
    "JoinedLabels",
    "LabelOptions",
    "Retrieval",
    "Unfinished",
    "evaluate",
    "join_labels",
    "measure",
    "score_features",
    "score_retrieval",
    "target",
]
