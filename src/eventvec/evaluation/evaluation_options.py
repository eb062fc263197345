"""The options of `evaluate` and of `score_features`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eventvec.errors import ConfigError, nearest, shown
from eventvec.options import check_seed
from eventvec.tables.read_options import Duration, Instant, LabelTime

ALSO = ("aggregates", "event_count", "parts")
"""The sets of features that are scored on request."""


@dataclass(frozen=True)
class LabelOptions(LabelTime):
    """How a table of labels is joined to embeddings, and which embeddings are tested.

    Args:
        key: The name of the key in the table of labels, if it differs.
        group: A column of the table of labels. Entities of one group are never split, for example a household's.
        label_time: The column of the table of labels with the time of each label; only earlier events may be read. By
            default, it is the column of the cutoffs, if the histories were cut and the table has it, or else the only
            column of times (where the times of events are numbers, the column of the same name). With `none`, labels
            have no time.
        inclusive: Events at the very time of a label may be read too.
        until: A time for all labels. Only earlier events may be used.
        holdout: Test on the entities that the encoder never saw, see `score_features`.
        split_at: A date. Models are trained on labels before it and tested on those at or after it, by `label_time`.
        gap: Leave out labels less than this length of time before that date, such as 30d or 1mo, because what they
            describe reaches beyond it.
        both_sides: Let an entity be trained on before that date and tested after it.
        weight: A column of the table of labels with the weight of each label, above 0.
        earlier_labels: Add the entity's own earlier labels, which are known this length of time after theirs, such as
            90d. It is the horizon of the labels and their gap together.
        also: Further sets of features: `aggregates` (Babaev et al. 2022), `event_count`, and `parts`, each part of the
            embedding alone and the embedding without it.
        groups: A column of the table of labels, or a static column of the data, with at most 50 texts, booleans or
            whole numbers: measures are told for each of its groups too, which may be split, unlike those of `group`.

    Raises:
        ConfigError: If `gap` or `both_sides` is given without `split_at`, or `both_sides` with `holdout`.
    """

    key: str | None = None
    group: str | None = None
    until: Instant | None = None
    holdout: bool = False
    split_at: Instant | None = None
    gap: Duration | None = None
    both_sides: bool = False
    weight: str | None = None
    earlier_labels: Duration | None = None
    also: Sequence[str] = ()
    groups: str | None = None

    def __post_init__(self) -> None:
        for name in self.also:
            if name not in ALSO:
                raise ConfigError(f"also: {shown(name)} is no set of features; {nearest(name, ALSO)}")
        for name, is_given in (("gap", self.gap is not None), ("both_sides", self.both_sides)):
            if is_given and self.split_at is None:
                raise ConfigError(f"{name} is given without split_at; name the date of the split (--split-at)")
        if self.both_sides and self.holdout:
            raise ConfigError(
                "both_sides is given together with holdout, which never trains on the entities that it tests; leave "
                "one of them out"
            )


@dataclass(frozen=True)
class EvaluationOptions:
    """How features are evaluated on a label.

    Args:
        task: The kind of label: binary, multiclass, numeric or multilabel; inferred from the labels by default. The
            rule is that of `target`.
        folds: The number of folds of the cross-validation, at least 2.
        fractions: The shares of each fold's training labels, in (0, 1]. All models and features get the same labels. A
            larger share contains a smaller one, and the test part is the same for all shares.
        seed: The seed of the folds, the shares and the boosted trees, in [0, 2³¹).
        models: The names of models: `stacked`, the default, which is boosted trees and a linear model, weighed inside
            the training part as in a predictor, and those with fixed settings in `MODELS`.
        num_threads: The number of threads, which train folds side by side; by default as many as PyTorch uses.

    Raises:
        ConfigError: If a fraction is outside (0, 1] or given twice, the seed is not in [0, 2^31), or `num_threads`
            is negative.
    """

    task: str | None = None
    folds: int = 5
    fractions: Sequence[float] = (1.0,)
    seed: int = 42
    models: Sequence[str] | None = None
    num_threads: int | None = None

    def __post_init__(self) -> None:
        in_range(self.fractions)
        check_seed("seed", self.seed, 31)
        if (self.num_threads or 0) < 0:
            raise ConfigError(f"num_threads must be at least 1, or 0 for all, got {self.num_threads}")


def in_range(fractions: Sequence[float]) -> None:
    """Refuse shares of labels that are empty, outside (0, 1] or repeated."""
    import numpy as np

    if isinstance(fractions, str) or not isinstance(fractions, Sequence | np.ndarray):
        raise ConfigError(f"fractions must be a list of numbers in (0, 1], got {shown(fractions)}")
    for fraction in fractions:
        if not isinstance(fraction, int | float | np.number) or not 0 < fraction <= 1:
            raise ConfigError(f"fractions must be in (0, 1], got {shown(fraction)}")
    if not len(fractions):
        raise ConfigError("fractions must hold at least one number in (0, 1], got none")
    if len(set(fractions)) < len(fractions):
        raise ConfigError(f"fractions must be distinct, got {', '.join(f'{fraction:g}' for fraction in fractions)}")
