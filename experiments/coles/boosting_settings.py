"""The settings of boosted trees for the data sets of Babaev et al. 2022."""

from __future__ import annotations

from collections.abc import Mapping

from eventvec.errors import ConfigError, nearest
from eventvec.learners.single_learners import Boosting

LIGHTGBM: Mapping[str, Boosting] = {
    "age_group": Boosting(1000, 0.02, 0.75, 12, 50),
    "rosbank": Boosting(500, 0.02, 0.5, 6, 31),
    "bowl2019": Boosting(1000, 0.01, 0.75, 12, 21),
    "x5": Boosting(1000, 0.05, 0.5, 6, 50),
    "two_cores": Boosting(100, 0.1, 0.5, 6, 31, min_data_in_leaf=20),
    "small": Boosting(20, 0.1, 0.5, 6, 31, min_data_in_leaf=5),
}
"""Boosted trees as the public code of Babaev et al. 2022 sets them for each data set, by the loader's name.

`two_cores` is for the other sets: those of Churn with a fifth of the trees at five times the rate. `small` is for small
studies, which show that a table runs.
"""


def lightgbm_settings(name: str) -> Boosting:
    """Return the settings of boosted trees of Babaev et al. 2022 for one of their data sets.

    The settings are the same for aggregates and for every embedding. The public code also divides each feature by its
    largest absolute value before training; the splits of a tree do not depend on a feature's scale, so this is left
    out here.

    Args:
        name: a loader in `experiments.data`: `age_group`, `rosbank` (churn), `bowl2019` (assessment) or `x5` (retail).

    Raises:
        ConfigError: If the paper has no such data set.

    Example:
        >>> lightgbm_settings("x5").learning_rate
        0.05
        >>> lightgbm_settings("rosbnk")
        Traceback (most recent call last):
        eventvec.errors.ConfigError: no settings for data set 'rosbnk'; did you mean 'rosbank'?...
    """
    if name not in LIGHTGBM:
        raise ConfigError(f"no settings for data set {name!r}; {nearest(name, LIGHTGBM)}")
    return LIGHTGBM[name]
