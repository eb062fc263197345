"""Evaluation of embeddings on labels.

::

    on_labels   `evaluate`: embeddings and a table of labels, beside hand-crafted features
    scoring     `score_features`: the same models, folds and shares of the labels for each set of features
    joined_labels  the join of labels and embeddings by key, which counts every row that does not fit
    earlier_labels  the entity's own earlier labels, those that were known by the time of a row, as features
    leaks       checks that no embedding contains later events and that all features describe the same events
    task        the task of a column of labels: binary, multiclass or numeric; several labels
    protocols   which labels train the models and which test them: cross-validation, holdout, a split by date
    folds       training and test positions of these, and shares of the labels
    models      boosted trees, a linear model, nearest neighbours and others, with fixed settings
    part_sets   the parts of an embedding, alone and left out
    perceptron  the small network among them
    parallel    work side by side in threads
    baselines   features without training: the number of events, an untrained event encoder
    metrics     scores of predictions
    resampling  scores on resampled test entities
    intervals   the interval of a mean score, from these
    inputs      checks of features, groups and options
    result      `Evaluation`: a table, a data frame, JSON
    printing    results as tables for a terminal and a notebook
    conclusion  the result in one sentence
    suspicion   the sentence before it, if the result is too good to be true

Nothing here is tuned: the settings of a model are the same for every set of features.
"""

from __future__ import annotations

from eventvec.evaluation.joined_labels import JoinedLabels, join_labels
from eventvec.evaluation.metrics import METRICS, half_width, measure
from eventvec.evaluation.models import MODELS
from eventvec.evaluation.on_labels import LabelOptions, evaluate
from eventvec.evaluation.result import Evaluation
from eventvec.evaluation.scoring import EvaluationOptions, score_features
from eventvec.evaluation.task import target
from eventvec.methods.retrieval import Retrieval, score_retrieval

__all__ = [
    "METRICS",
    "MODELS",
    "Evaluation",
    "EvaluationOptions",
    "JoinedLabels",
    "LabelOptions",
    "Retrieval",
    "evaluate",
    "half_width",
    "join_labels",
    "measure",
    "score_features",
    "score_retrieval",
    "target",
]
