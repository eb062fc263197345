"""The options with which heads are trained, for `fit`, `fit_head`, the estimators and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eventvec.errors import ConfigError, nearest, shown
from eventvec.options import LATEST, above_zero, at_least, check_seed

SEED_BITS = 31
"""The size of seeds that LightGBM takes."""
METRICS_OF_NUMBERS = ("r2", "mae")
MOST_VALUES = 100_000_000
"""The largest number of rows times features on which boosted trees are trained; about five minutes on two cores."""


@dataclass(frozen=True)
class HeadOptions:
    """How labels are learned.

    Args:
        weight: The column of the table of labels with the weight of each.
        earlier_labels: The length of time after which a label is known, such as `30d`: the entity's own labels that
            were known by the time of a row are features then, and predictions need the labels that are known. By
            default, those of `future_labels` are features too, computed from the events by their rule, in predictions
            as well; `none` declines that.
        features: Tables of further features by name, each with the key and one row per entity, or one for each of its
            times. Predictions need them too.
        models: Learners of your own by name: classifiers or regressors with the interface of scikit-learn, trained on
            hand-crafted features and on all blocks beside ours, each with half the prior share of boosted trees.
        network: Whether a network is trained on the label too, from the encoder of the model if there is one; it takes
            minutes.
        metric: For numbers, `r2`, the default, to predict with small squared errors, or `mae`: then trees that
            minimise absolute errors are among the learners, and the score is the mean absolute error.
        most_values: The largest number of rows times features on which boosted trees are trained; above it, a random
            sample of the rows trains them.
        time_budget: The seconds that reading and training may take; learners and blocks that it leaves no time for are
            left out. Without it, one seed gives the same bits.
        seed: The seed of everything random.
        latest: How many of an entity's latest events are read by what does not follow from running sums and counts; a
            state store keeps as many.
        groups: A column of the table of labels, or a static column, with at most 50 texts, booleans or whole numbers:
            what the model is worth is told for each of its groups too, and where one differs from the others. A column
            of the table of labels is no feature.

    Raises:
        ConfigError: If an option is out of range.

    Example:
        >>> HeadOptions(earlier_labels="30d", metric="mae").most_values
        100000000
    """

    weight: Any = None
    earlier_labels: Any = None
    features: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    network: bool = False
    metric: str | None = None
    most_values: int = MOST_VALUES
    time_budget: float | None = None
    seed: int = 0
    latest: int = LATEST
    groups: Any = None

    def __post_init__(self) -> None:
        if self.time_budget is not None:
            above_zero("time_budget", self.time_budget)
        at_least("most_values", self.most_values, 1)
        at_least("latest", self.latest, 30)
        if self.metric is not None and self.metric not in METRICS_OF_NUMBERS:
            raise ConfigError(f"metric {shown(self.metric)} is not known; {nearest(self.metric, METRICS_OF_NUMBERS)}")
        check_seed("seed", self.seed, SEED_BITS)
