"""The options of `influence`."""

from __future__ import annotations

from dataclasses import dataclass

from eventvec.evaluation.evaluation_options import EvaluationOptions
from eventvec.options import at_least, check_seed
from eventvec.tables.read_options import LabelTime


@dataclass(frozen=True)
class InfluenceOptions(LabelTime):
    """How influences are measured; all but `entities` and `seed` need labels.

    Args:
        label_time: The column of the table of labels with the time of each label, see `evaluate`; only earlier events
            are read.
        inclusive: Events at the very time of a label, or of a cutoff, are read too.
        key: The name of the key in the table of labels, if it differs.
        group: A column of the table of labels. Entities of one group are never split, for example a household's.
        task: The kind of label: binary, multiclass or numeric; inferred from the labels by default.
        folds: The number of folds of the cross-validation, at least 2.
        model: The name of the model that is trained on the vectors; by default logistic_regression, or ridge for
            numbers.
        entities: The largest number of entities to measure, at least 2. Of more, a random sample is drawn.
        seed: The seed of the sample, the folds and the resampling, in [0, 2³¹).

    Raises:
        ConfigError: If `entities` is below 2, or the seed is not in [0, 2^31).

    Example:
        >>> InfluenceOptions(entities=500).folds
        5
    """

    key: str | None = None
    group: str | None = None
    task: str | None = None
    folds: int = EvaluationOptions.folds
    model: str | None = None
    entities: int = 2000
    seed: int = EvaluationOptions.seed

    def __post_init__(self) -> None:
        check_seed("seed", self.seed, 31)
        at_least("entities", self.entities, 2)
