"""The options of `decide`."""

from __future__ import annotations

from dataclasses import dataclass

from eventvec.options import check_seed
from eventvec.tables.read_options import Instant


@dataclass(frozen=True)
class DecisionOptions:
    """How labelled data are read that a decision is judged on, and how entities are drawn; all but `seed` need labels.

    Args:
        label_time: The column of the table of labels with the time of each label; only earlier events are read. By
            default it is that of the model's labels, or else the only column of times; with `none`, labels have no
            time.
        key: The name of the key in the table of labels, if it differs.
        group: A column of the table of labels. Entities of one group count together, for example a household's.
        weight: A column of the table of labels with the weight of each label, above 0.
        until: Use only events before this time, where labels have no time.
        seed: The seed of the parts and of the resampling, in [0, 2³¹).

    Raises:
        ConfigError: If the seed is out of range.

    Example:
        >>> DecisionOptions(label_time="month").seed
        42
    """

    label_time: str | None = None
    key: str | None = None
    group: str | None = None
    weight: str | None = None
    until: Instant | None = None
    seed: int = 42

    def __post_init__(self) -> None:
        check_seed("seed", self.seed, 31)
