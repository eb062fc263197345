"""What a configuration reads: the options of its `[data]` table, and label tables that cut in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path

from eventvec.dataset import Dataset
from eventvec.errors import ConfigError
from eventvec.schema import Schema
from eventvec.tables.fields import Fitting
from eventvec.tables.reading import read
from eventvec.tables.sources import Tabular, read_table
from eventvec.tables.statics import StaticKind, attach


def open_events(
    path: str,
    seed: int,
    schema: Schema | None = None,
    key: str | None = None,
    time: str | None = None,
    categorical: Sequence[str] | None = None,
    numeric: Sequence[str] | None = None,
    time_format: str | None = None,
    meds: bool = False,
    until: str | int | float | date | datetime | None = None,
    labels: str | None = None,
    label_time: str | None = None,
    key_as: str | None = None,
    holdout: float | None = None,
    static: str | None = None,
    static_categorical: Sequence[str] | None = None,
    static_numeric: Sequence[str] | None = None,
    static_text: Sequence[str] | None = None,
    static_vector: Sequence[str] | None = None,
    fitting: Fitting = Fitting(),  # noqa: B008 (it is frozen)
) -> Dataset:
    """Return the events of a `[data]` table, whose options these are; `read` explains them.

    Not options are `seed`, of the choice of held-out entities, and `schema`: that of the run whose encoder is trained
    further, by which events are coded. Static columns that it does not know are fitted here.

    Raises:
        ConfigError: an option contradicts another, or `schema`.
        DataError: a table cannot be used.

    Example:
        >>> open_events("absent.parquet", seed=0, key="card", time="day")
        Traceback (most recent call last):
        eventvec.errors.DataError: absent.parquet does not exist; ...
    """
    listed = {
        "categorical": static_categorical, "numeric": static_numeric, "text": static_text, "vector": static_vector,
    }  # fmt: skip
    columns = _kinds(listed)
    if columns is not None and static is None:
        raise ConfigError("static columns are listed, but not the table that has them; name it: static (--static)")
    data = read(
        path, key=key, time=time, categorical=categorical, numeric=numeric, time_format=time_format, meds=meds,
        until=until, cutoffs=open_cutoffs(labels, label_time), key_as=key_as, schema=schema,
        fitting=Fitting() if schema else fitting, holdout=(holdout, seed) if holdout else None,
    )  # fmt: skip
    return data if static is None else attach(data, static, columns, fitting=fitting)


def open_cutoffs(labels: Path | str | None, label_time: str | None) -> tuple[Tabular, str] | None:
    """Return a table and its column with each entity's time, as `read` takes them; None where neither is given.

    Raises:
        ConfigError: one is given without the other.

    Example:
        >>> open_cutoffs(None, "decided")
        Traceback (most recent call last):
        eventvec.errors.ConfigError: --labels and --label-time go together: ...
    """
    if (labels is None) != (label_time is None):
        raise ConfigError("--labels and --label-time go together: a table, and its column with each entity's time")
    return None if labels is None or label_time is None else (read_table(str(labels)), label_time)


def _kinds(listed: Mapping[str, Sequence[str] | None]) -> dict[str, StaticKind] | None:
    if all(names is None for names in listed.values()):
        return None
    kinds: dict[str, StaticKind] = {}
    for kind, names in listed.items():
        for name in names or ():
            if name in kinds:
                raise ConfigError(f"static column {name!r} is listed as {kinds[name]} and as {kind}; it is one of them")
            kinds[name] = kind  # type: ignore[assignment]
    return kinds
