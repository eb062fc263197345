"""What an embedding is worth on the user's own labels.

::

    labels     which label belongs to which embedding: a join on the key, everything that does not fit counted
    task       which task a column of labels asks for: binary, multiclass or numeric
    folds      who is trained on and who is tested on; groups, label shares, holdout
    models     boosted trees, a linear model, nearest neighbours, all with fixed settings
    metrics    scores and intervals
    retrieval  search by description: mean reciprocal rank and recall, beside chance
    inputs     what a caller gives, refused at the door
    probe      evaluate: all of it, the same for each set of features
    result     Evaluation, to_dict for a file, render for a terminal
    protocol   the paper's protocol, cross-validation and a common test set; for trainers as well as features
    paired     differences over folds and runs, with an interval

Not here: tuning. A model's settings are the same for every set of features, so that a difference is the features'.
"""

from __future__ import annotations

from eventvec.evaluate.labels import Joined, join_labels
from eventvec.evaluate.metrics import METRICS, half_width, measure, precision_at_recall
from eventvec.evaluate.models import LIGHTGBM, MODELS, Boosting, lightgbm_settings
from eventvec.evaluate.paired import Paired, paired, relative
from eventvec.evaluate.probe import evaluate
from eventvec.evaluate.protocol import PaperResult, PaperSplit, paper_protocol, paper_split
from eventvec.evaluate.result import Evaluation, render
from eventvec.evaluate.task import target

__all__ = [
    "LIGHTGBM",
    "METRICS",
    "MODELS",
    "Boosting",
    "Evaluation",
    "Joined",
    "Paired",
    "PaperResult",
    "PaperSplit",
    "evaluate",
    "half_width",
    "join_labels",
    "lightgbm_settings",
    "measure",
    "paired",
    "paper_protocol",
    "paper_split",
    "precision_at_recall",
    "relative",
    "render",
    "target",
]
