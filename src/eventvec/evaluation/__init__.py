"""What an embedding is worth on the user's own labels.

::

    labels     which label belongs to which embedding: a join on the key, everything that does not fit counted
    task       which task a column of labels asks for: binary, multiclass or numeric
    folds      who is trained on and who is tested on; groups, label shares, holdout
    models     boosted trees, a linear model, nearest neighbours, all with fixed settings
    metrics    scores and intervals
    retrieval  search by description: mean reciprocal rank and recall, beside chance
    inputs     what a caller gives, refused at the door
    scoring    evaluate: all of it, the same for each set of features
    result     Evaluation, to_dict for a file, render for a terminal

Not here: tuning. A model's settings are the same for every set of features, so that a difference is the features'.
"""

from __future__ import annotations

from eventvec.evaluation.labels import Joined, join_labels
from eventvec.evaluation.metrics import METRICS, half_width, measure, precision_at_recall
from eventvec.evaluation.models import MODELS
from eventvec.evaluation.result import Evaluation, render
from eventvec.evaluation.scoring import evaluate
from eventvec.evaluation.task import target

__all__ = [
    "METRICS",
    "MODELS",
    "Evaluation",
    "Joined",
    "evaluate",
    "half_width",
    "join_labels",
    "measure",
    "precision_at_recall",
    "render",
    "target",
]
