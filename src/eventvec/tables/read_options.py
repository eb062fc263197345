"""The options of `read`, of the `[data]` table of a configuration and of the command line."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Literal, TypeAlias, get_args

from eventvec.errors import ConfigError, shown
from eventvec.files import path_only
from eventvec.options import as_table, check_seed, gather_all, one_of
from eventvec.schema import MAX_BUCKETS, Ties
from eventvec.tables.addresses import Tabular, name_of

Instant: TypeAlias = str | int | float | date
"""A point in time: ISO text, a date or a datetime for calendar times, otherwise a number in the column's unit."""

Duration: TypeAlias = str | int | float | timedelta
"""A length of time: for calendar times text, a number and s, m, h, d, w, mo or y, such as 30d and 1mo, or a timedelta;
otherwise a number in the column's unit."""

StaticKind: TypeAlias = Literal["categorical", "numeric", "text", "vector"]

DECLINED = "none"
"""The value of `label_time` that says that labels have no time."""


@dataclass(frozen=True)
class Fitting:
    """How a schema is fitted to a table.

    Args:
        min_count: Minimum number of events with a value. Rarer values enter no vocabulary and so no file.
        max_values: Maximum size of a vocabulary, which takes the most frequent values.
        log: Whether numbers pass through ``sign(x)·log(1 + |x|)`` before they are standardised.
        standardise: Whether numbers are scaled to mean 0 and standard deviation 1.
        buckets: Maximum number of buckets of a hashed column; it has fewer if it has fewer distinct values.

    Raises:
        ConfigError: If `min_count`, `max_values` or `buckets` is below 1, or there are too many buckets.

    Example:
        >>> Fitting(min_count=1).max_values
        10000
    """

    min_count: int = 5
    max_values: int = 10_000
    log: bool = True
    standardise: bool = True
    buckets: int = 1000

    def __post_init__(self) -> None:
        if self.min_count < 1 or self.max_values < 1:
            raise ConfigError(
                f"min_count and max_values must be at least 1, got {self.min_count} and {self.max_values}"
            )
        if not 1 <= self.buckets <= MAX_BUCKETS:
            raise ConfigError(f"buckets must be from 1 to {MAX_BUCKETS:,}, got {self.buckets}")


@dataclass(frozen=True)
class LabelTime:
    """Which events are read for a label.

    Args:
        label_time: The column of the table of labels with the time of each label; only earlier events are read. By
            default, it is the only column of times, if the table has exactly one; where the times of events are
            numbers, it is the column of the same name. With `none`, labels have no time.
        inclusive: Events at the very time of a label, or of a cutoff, are read too.
    """

    label_time: str | None = None
    inclusive: bool = False


@dataclass(frozen=True)
class Columns:
    """Which columns of a table of events are used, and how the schema is fitted to them.

    Args:
        key: The column that names the entity: whole numbers, text or UUIDs.
        time: The column that orders an entity's events: timestamps, dates, numbers, or text in ISO 8601.
        categorical: The columns of categories; if this or `numeric` is given, even empty, only listed columns are used.
            Otherwise kinds are inferred, and `Dataset.notes` names the columns that are left out, and the kinds that
            whole numbers were given, with the reasons.
        numeric: The columns of numbers; if this or `categorical` is given, even empty, only listed columns are used.
        hashed: The columns of categories with too many values for a vocabulary, such as merchants, whose values are
            hashed into buckets; the others are used as without this option. If kinds are inferred, text is hashed
            without being named here if more than half of its values are distinct, and less than nine tenths.
        summed: The list columns, such as the items of a basket, whose elements are summed: the vector of an event has
            the sum of the embeddings of its elements, in whatever order they are. A null list is an empty one.
        texts: The columns of free text, such as descriptions, which a frozen text encoder reads. The event encoder
            names it: encoder.events.texts. Texts never enter a model folder.
        known_at: The column with the time at which each event became known, such as when it was posted or corrected, of
            the kind of `time`; every event needs one. A cut at a time leaves in the events that were known before it,
            also those whose own time is later, such as a planned visit. Encoders read the event's own time. Events at
            one time are in the order in which they became known, where no column `order` decides. Reading by the schema
            needs the column again.
        meds: The table has the columns of the Medical Event Data Standard: subject_id, time, code, numeric_value. Rows
            without a time are measurements that do not change; they are left out and counted.
        fitting: How the schema is fitted.
    """

    key: str | None = None
    time: str | None = None
    categorical: Sequence[str] | None = None
    numeric: Sequence[str] | None = None
    hashed: Sequence[str] | None = None
    summed: Sequence[str] | None = None
    texts: Sequence[str] | None = None
    known_at: str | None = None
    meds: bool = False
    fitting: Fitting = Fitting()


@dataclass(frozen=True)
class Cuts:
    """The time at which histories are cut: one time for all entities, or one for each.

    Args:
        until: Use only events before this time (ISO text, or a number). An entity without such events remains as an
            empty row.
        cutoffs: A table with the key and a time for each entity, or several, such as the ends of months; only events
            before the time are used, one row for each time, and entities without a row there are left out.
        cutoff_column: The column with the times in the table of `cutoffs`.
        inclusive: Events at the very time of a cutoff are used too. By default, only those before it are.
    """

    until: Instant | None = None
    cutoffs: Tabular | None = None
    cutoff_column: str | None = None
    inclusive: bool = False

    def __post_init__(self) -> None:
        if self.inclusive and self.cutoffs is None:
            raise ConfigError("inclusive is given without cutoffs, to whose times it applies (--cutoffs)")
        if (self.cutoffs is None) != (self.cutoff_column is None):
            absent, present = ("cutoffs", "cutoff_column")[:: 1 if self.cutoffs is None else -1]
            raise ConfigError(
                f"{present} is given without {absent}; give both, a table and its column with each entity's time "
                "(--cutoffs and --cutoff-column)"
            )


@dataclass(frozen=True)
class TableFormat:
    """The format of the times in a table, the order of events at one time, and the name of the key in files.

    Args:
        time_format: The strptime format of times in text or digits, such as '%d/%m/%Y %H:%M'; or s, ms, us or ns for
            numbers of that unit since 1970.
        order: The column that orders the events of an entity at one time, such as a line number: numbers, times or
            text. By default the schema's, if it has one.
        ties: The order of events of an entity at one time, where no column decides: that of the table (file), or that
            of their values (canonical), after which nothing depends on the order of rows. By default the schema's, or
            else file.
        explode: The list columns, such as the items of a basket, whose elements become one event each. Lists of one row
            are exploded together and need equal lengths; a null or empty list gives one event with missing values. The
            members of structures become columns, such as items.price. By default the schema's, or else none.
        key_as: The name of the key in files that eventvec writes.
        decimal: The decimal mark of numbers in text, ',' or '.', such as ',' for '1.200,50'. The other one, spaces and
            apostrophes may separate groups of three digits. By default, only plain numbers such as '1200.50' are read.
    """

    time_format: str | None = None
    order: str | None = None
    ties: Ties | None = None
    explode: Sequence[str] | None = None
    key_as: str | None = None
    decimal: Literal[",", "."] | None = None

    def __post_init__(self) -> None:
        if self.decimal is not None:
            one_of("decimal", self.decimal, (",", "."))
        if self.explode is not None:
            check_names("explode", self.explode)
        if self.ties is not None:
            one_of("ties", self.ties, get_args(Ties))


@dataclass(frozen=True)
class HoldOut:
    """The hold-out set of entities, which depends on the share, the seed and the keys, only.

    Args:
        holdout: The share of entities that training never sees, above 0 and below 1.
        holdout_seed: The seed of that choice.
    """

    holdout: float | None = None
    holdout_seed: int = 0

    def __post_init__(self) -> None:
        check_seed("holdout_seed", self.holdout_seed)
        if self.holdout is not None and not 0 < self.holdout < 1:
            raise ConfigError(f"holdout must be above 0 and below 1, got {self.holdout}")


@dataclass(frozen=True)
class StaticColumns:
    """A table with one row per entity: labels, expert features, descriptions.

    Args:
        static: A table with the key and one row per entity, with labels, expert features or descriptions. With a
            schema, the static columns of the schema are read from it.
        static_columns: The kind of each column to use (categorical, numeric, text or vector); by default all columns
            are used whose kind can be inferred.
    """

    static: Tabular | None = None
    static_columns: Mapping[str, StaticKind] | None = None

    def __post_init__(self) -> None:
        if self.static_columns is not None and self.static is None:
            raise ConfigError("static_columns is given without static, the table that has these columns (--static)")


@dataclass(frozen=True)
class Storage:
    """Where to store the columns of events that do not fit into memory.

    Args:
        store: A folder for the columns, from which they are read on demand; it is made if it does not exist, and used
            again if it was made from the same events and options. Without it, columns are held in memory.

    Example:
        >>> Storage("events.store").store
        'events.store'
    """

    store: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.store is not None:
            path_only(self.store)


GROUPS = (Columns, TableFormat, Cuts, HoldOut, StaticColumns, Storage)
"""The dataclasses that hold all options of `read`."""


def check_names(option: str, names: object) -> None:
    """Refuse the value of an option that is no list of different column names."""
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{option} must be a list of column names, got {shown(names)}")
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ConfigError(f"{option} names column {shown(repeated[0])} twice; name it once")


def changes(options: object) -> dict[str, Any]:
    """Return the options of a dataclass that differ from their defaults, as a table of plain values."""
    defaults = as_table(type(options)())
    return {name: value for name, value in as_table(options).items() if name not in defaults or value != defaults[name]}


@dataclass(frozen=True)
class ReadOptions:
    """All options of `read`, see the dataclasses of `GROUPS`."""

    columns: Columns
    table: TableFormat
    cuts: Cuts
    holdout: HoldOut
    static: StaticColumns
    storage: Storage

    @staticmethod
    def of(options: Mapping[str, Any]) -> ReadOptions:
        """Return the options of a caller, in their groups."""
        return ReadOptions(*gather_all(options, *GROUPS))

    def describe(self, source: Tabular | Mapping[str, Tabular]) -> dict[str, Any]:
        """Return the `[data]` table of a configuration: `path`, and the options that differ from their defaults.

        A table in memory has no path. If it is the value of an option, the text `a table in memory` replaces it.
        """
        table: dict[str, Any] = {"path": name_of(source)} if isinstance(source, str | os.PathLike) else {}
        if isinstance(source, Mapping):
            table["path"] = {name: name_of(each) for name, each in source.items()}
        for group in vars(self).values():
            for name, value in changes(group).items():
                if name in ("cutoffs", "static"):
                    value = name_of(value)
                table[name] = dict(value) if isinstance(value, Mapping) else value
        if "store" in table:
            table["store"] = os.fspath(table["store"])
        table.pop("holdout_seed", None)  # the seed is recorded with every share, and never alone
        if "holdout" in table:
            table["holdout_seed"] = self.holdout.holdout_seed
        if "fitting" in table:
            table["fitting"] = changes(self.columns.fitting)
        return table
