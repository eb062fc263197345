"""Random tables of events with hostile values, types and names, in every form in which `read` takes a table."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import uuid
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import deltalake
import duckdb
import lakes
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

TEXTS = (
    "", " ", "NaN", "null", "None", "1", "1.50", "1e5", "007", "true", "-0", "é", "e\u0301", "日本", "🙂", "\u202eabc",
    "a\x00b",
    "a\nb", "\t", "\x1b[31m", '"', "'", ",", "\\", "<b>", "x" * 3000, "2024-01-01", "\ufeff", "{x}", "%s", "inf",
)  # fmt: skip
FLOATS = (
    float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 5e-324, -0.0, 0.0, 3.5e38, 1e39, 2.0**63, 0.1, 1e-30,
)  # fmt: skip
NAMES = (
    "", " ", "time", "gap", "segment", "embedding", "events", "last_time", "emb_000", "a\nb", "a\x00b", "é",
    "x" * 300, "a,b", "a.b",
    "__index_level_0__", "prediction", "key", "\x1b[31m", "0", "row", '"', "'", "{x}", "%s", "id ", "T",
)  # fmt: skip
UNITS = ("s", "ms", "us", "ns")
ZONES = (None, "UTC", "Europe/Berlin", "+03:00", "America/New_York")
WRONG_ZONES = ("Mars/Olympus", "", "+25:99")
EXTREMES = (0, 1, -1, 2**31 - 1, -(2**31), 2**53 + 1, 2**62 - 1, 2**62, 2**63 - 1, -(2**63))
NO_SOURCE = (
    pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError, ValueError, OverflowError,
    KeyError, duckdb.Error, deltalake.exceptions.DeltaError, OSError,
)  # fmt: skip
"""Errors of libraries that cannot hold a table in one form; it is then given as an Arrow table."""


def chance(rng: Random, share: float) -> bool:
    return rng.random() < share


def sprinkled(rng: Random, values: list[Any], hostile: tuple[Any, ...], share: float) -> list[Any]:
    """Return the values, a share of them replaced by hostile ones."""
    return [rng.choice(hostile) if chance(rng, share) else value for value in values]


def keys(rng: Random, n: int, hostility: float) -> pa.Array:
    """Return distinctive keys of `n` rows, of a few entities."""
    entities = max(1, rng.choice((1, 2, 5, max(n // 4, 1))))
    rows = [rng.randrange(entities) for _ in range(n)]
    kind = rng.choice(("text", "integer", "uint64", "dictionary", "uuid", "bytes", "view", "small", "negative"))
    hostile = chance(rng, hostility)
    if kind in ("integer", "uint64", "negative"):
        base, sign = (2**63 + 770_000_001, 1) if kind == "uint64" else (770_012_345, -1 if kind == "negative" else 1)
        values = [sign * (base + 7919 * row) for row in rows]
        if hostile:
            values = sprinkled(rng, values, (0, None, 2**63 - 1), 0.1)
        return pa.array(values, pa.uint64() if kind == "uint64" else pa.int64())
    if kind == "small":
        return pa.array(rows, rng.choice((pa.int8(), pa.int16(), pa.uint8(), pa.int32())))
    if kind in ("uuid", "bytes"):
        values = [uuid.UUID(int=770_012_345_678_901_234 + 7919 * row).bytes for row in rows]
        if hostile:
            values = sprinkled(rng, values, (None, b"secret-too-short"[: rng.choice((0, 3, 16))]), 0.1)
        try:
            return pa.array(values, pa.binary(16) if kind == "uuid" else pa.binary())
        except pa.ArrowInvalid:
            return pa.array(values, pa.binary())
    texts = [f"secret-{row:04}-é" if hostile else f"secret-{row:04}" for row in rows]
    if hostile:
        unusual = (None, "", "secret\x00nul", "secret\nline", "SECRET-0001", "secret-" + "x" * 500)
        texts = sprinkled(rng, texts, unusual, 0.1)
    array = pa.array(texts, pa.string())
    if kind == "dictionary":
        return array.dictionary_encode()
    return array.cast(pa.string_view()) if kind == "view" else array


def times(rng: Random, n: int, hostility: float) -> tuple[pa.Array, dict[str, Any]]:
    """Return times of `n` rows, unsorted and sometimes with ties, and the options with which `read` reads them."""
    steps = rng.sample(range(10 * n + 10), n) if chance(rng, 0.6) else [rng.randrange(4 * n + 2) for _ in range(n)]
    unit_of_steps = rng.choice((1, 7, 3600, 86400))
    seconds = [step * unit_of_steps for step in steps]
    kinds = ("timestamp", "integer", "float", "date", "text", "zoned", "digits", "dictionary", "decimal")
    kind = rng.choice(("timestamp", "timestamp", *kinds))
    share = 0.1 if chance(rng, hostility) else 0.0
    if kind == "integer":
        return pa.array(sprinkled(rng, seconds, (*EXTREMES, None), share), pa.int64()), {}
    if kind == "float":
        return pa.array(sprinkled(rng, [second + 0.25 for second in seconds], (*FLOATS, None), share)), {}
    if kind == "decimal":
        return pa.array([decimal.Decimal(second) for second in seconds], pa.decimal128(20, 2)), {}
    if kind in ("text", "zoned", "digits"):
        return _written_times(rng, seconds, kind, share)
    if kind == "date":
        days = [dt.date(2020, 1, 1) + dt.timedelta(days=step) for step in steps]
        days = sprinkled(rng, days, (dt.date.max, dt.date.min, None), share)
        return pa.array(days, rng.choice((pa.date32(), pa.date64()))), {}
    unit = rng.choice(UNITS)
    zone = rng.choice(WRONG_ZONES if share and chance(rng, 0.1) else ZONES)
    numbers = [(1_704_067_200 + second) * 1000 ** UNITS.index(unit) for second in seconds]
    numbers = sprinkled(rng, numbers, (*EXTREMES, None), share)
    array = pa.array(numbers, pa.int64()).cast(pa.timestamp(unit, zone))
    return (array.dictionary_encode() if kind == "dictionary" else array), {}


def _written_times(rng: Random, seconds: list[int], kind: str, share: float) -> tuple[pa.Array, dict[str, Any]]:
    """Return times as text, a share of them unreadable, and the options with which `read` reads them."""
    forms = {
        "text": ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M"),
        "zoned": ("%Y-%m-%dT%H:%M:%S+02:00",),
        "digits": ("%Y%m%d",),
    }
    form = rng.choice(forms[kind])
    written = [(dt.datetime(2024, 1, 1) + dt.timedelta(seconds=second)).strftime(form) for second in seconds]
    wrong = ("2024-13-40", "", "soon", "2024-01-01T00:00:00Z", "9999-12-31", "2024-01-01\x00", None)
    options = {"time_format": rng.choice((form, form, "%d.%m", "%Q", ""))} if kind == "digits" else {}
    return pa.array(sprinkled(rng, written, wrong, share), pa.string()), options


def column(rng: Random, n: int, hostility: float) -> pa.Array:
    """Return the values of `n` rows of an event's field, of an ordinary type or, rarely, of any Arrow type."""
    missing = rng.choice((0.0, 0.0, 0.2))
    if not chance(rng, 0.4 * hostility):
        kind = rng.choices(("text", "float", "integer", "boolean", "dictionary", "list"), (4, 4, 4, 4, 4, 1))[0]
        wrong = chance(rng, hostility)
        words = (*rng.sample(TEXTS, 3), None) if wrong else (None,)
        if kind == "float":
            unusual = (*FLOATS, None) if wrong else (None,)
            values = sprinkled(rng, [rng.gauss(0, 20) for _ in range(n)], unusual, max(missing, 0.1 * wrong))
            return pa.array(values, rng.choice((pa.float64(), pa.float32())))
        if kind == "integer":
            many, unusual = rng.choice((3, 1000)), (*EXTREMES, None) if wrong else (None,)
            values = sprinkled(rng, [rng.randrange(many) for _ in range(n)], unusual, missing)
            return pa.array(values, pa.int64())
        if kind == "boolean":
            return pa.array(sprinkled(rng, [chance(rng, 0.5) for _ in range(n)], (None,), missing), pa.bool_())
        if kind == "list":
            baskets = [rng.choices(("a", "b", "é", None, *words), k=rng.choice((0, 1, 1, 3))) for _ in range(n)]
            return pa.array(sprinkled(rng, baskets, (None,), missing), pa.list_(pa.string()))
        choice = rng.choice(("abc", "ab", [f"word {i}" for i in range(200)]))
        array = pa.array(
            sprinkled(rng, [rng.choice(choice) for _ in range(n)], words, max(missing, 0.2 * wrong)), pa.string()
        )
        return array.dictionary_encode() if kind == "dictionary" else array
    return rng.choice(UNUSUAL)(rng, n)


def _integers(rng: Random, n: int, low: int = 0, high: int = 100) -> list[Any]:
    return sprinkled(rng, [rng.randint(low, high) for _ in range(n)], (None,), rng.choice((0.0, 0.3)))


def _typed(kind: pa.DataType, low: int = 0, high: int = 100) -> Callable[[Random, int], pa.Array]:
    """Return a function that draws a column of a type to which integers can be cast."""
    return lambda rng, n: pa.array(_integers(rng, n, low, high), pa.int64()).cast(kind, safe=False)


def _values(make: Callable[[int], Any], kind: pa.DataType | None = None) -> Callable[[Random, int], pa.Array]:
    """Return a function that draws a column of values that are made from integers."""
    return lambda rng, n: pa.array([None if i is None else make(i) for i in _integers(rng, n)], kind)


def _null_in_dictionary(rng: Random, n: int) -> pa.Array:
    dictionary = pa.array(["a", None, "b", "a"])
    return pa.DictionaryArray.from_arrays(pa.array(_integers(rng, n, 0, 3), pa.int8()), dictionary)


UNUSUAL: tuple[Callable[[Random, int], pa.Array], ...] = (
    *(_typed(pa.timestamp(unit, zone)) for unit in UNITS for zone in ("UTC", "Mars/Olympus")),
    *(_typed(pa.duration(unit), -100) for unit in UNITS),
    *(_typed(kind, -100) for kind in (pa.int8(), pa.int16(), pa.float32(), pa.date64())),
    _typed(pa.uint64(), 0, 2**63 - 1),
    _typed(pa.time64("us")),
    _values(lambda i: decimal.Decimal(i).scaleb(-18), pa.decimal256(60, 20)),
    _values(lambda i: decimal.Decimal(i).scaleb(-2), pa.decimal128(38, 10)),
    _values(lambda i: decimal.Decimal(10) ** 37 + i, pa.decimal128(38, 0)),
    _values(lambda i: [1.0] * (i % 3), pa.list_(pa.float64())),
    _values(lambda i: [1.0, None, float(i)], pa.list_(pa.float32(), 3)),
    _values(lambda i: [str(i)], pa.large_list(pa.string())),
    _values(lambda i: {"a": i, "b": "x"}, pa.struct([("a", pa.int64()), ("b", pa.string())])),
    _values(lambda i: [("a", i)], pa.map_(pa.string(), pa.int64())),
    _values(lambda i: bytes([i, 0, 255]), pa.binary()),
    _values(lambda i: bytes([i]) * 16, pa.binary(16)),
    _values(lambda i: str(i), pa.large_string()),
    _values(lambda i: str(i), pa.string_view()),
    _values(lambda i: pa.MonthDayNano([i, 1, 1]), pa.month_day_nano_interval()),
    lambda rng, n: pa.nulls(n),
    lambda rng, n: pa.array(_integers(rng, n)).cast(pa.float32()).cast(pa.float16()),
    lambda rng, n: pa.array(_integers(rng, n), pa.int64()).dictionary_encode(),
    lambda rng, n: pa.array([rng.choice(FLOATS) for _ in range(n)]).dictionary_encode(),
    lambda rng, n: pa.array([chance(rng, 0.5) for _ in range(n)]).dictionary_encode(),
    lambda rng, n: pa.array(_integers(rng, n), pa.int64()).cast(pa.timestamp("us")).dictionary_encode(),
    _null_in_dictionary,
)  # fmt: skip


def names(rng: Random, n: int, hostility: float) -> list[str]:
    """Return names of columns; with hostility, some are reserved, repeated or unusual."""
    plain = [f"field_{i}" for i in range(n)]
    return sprinkled(rng, plain, NAMES, 0.15) if chance(rng, hostility) else plain


def rows(rng: Random, most: int = 60) -> int:
    """Return a number of rows, which may be none or one."""
    return rng.choice((rng.choice((0, 1, 2)), *[rng.randint(3, 12)] * 3, *[rng.randint(12, most)] * 16))


def events(rng: Random) -> tuple[pa.Table, dict[str, Any]]:
    """Return a table of events, and the options of `read` that name its key and time and say how its times are read."""
    n, hostility = rows(rng), rng.choice((0.0, 0.0, 0.2, 0.5, 1.0))
    key, (time, options) = keys(rng, n, hostility), times(rng, n, hostility)
    width = rng.choice((0, 1, 2, 3, 4, 4, 60 if chance(rng, 0.05) else 5))
    fields = [column(rng, n, hostility) for _ in range(width)]
    labels = ["id", "t", *names(rng, width, hostility)]
    if chance(rng, 0.1 * hostility):
        place = rng.randrange(2)
        labels[place] = rng.choice(NAMES)
    if chance(rng, 0.05 * hostility):
        labels.append(rng.choice(labels))
        fields.append(column(rng, n, 0))
    options |= {"key": labels[0], "time": labels[1]}
    order = list(range(len(labels)))
    rng.shuffle(order)
    arrays = [key, time, *fields]
    return pa.table([arrays[place] for place in order], names=[labels[place] for place in order]), options


def about_entities(rng: Random, key: pa.Array, name: str, times_like: pa.Array | None = None) -> pa.Table:
    """Return a table of labels, cutoffs and features with about one row per entity.

    Args:
        rng: The generator.
        key: The keys of the events.
        name: The name of their column.
        times_like: The times of the events, from which cutoffs are drawn.
    """
    hostility = rng.choice((0.0, 0.3, 1.0))
    plain = key.to_pylist()
    values: list[Any] = list(dict.fromkeys(plain))
    rng.shuffle(values)
    if chance(rng, 0.3):
        values = values[: rng.randint(0, len(values))]
    if chance(rng, hostility * 0.3) and values:
        values += rng.choices([*values, None], k=2)
    if times_like is not None and chance(rng, 0.2):  # several times of an entity
        values += rng.choices(values, k=len(values)) if values else []
    as_text = all(isinstance(value, int) for value in values) and chance(rng, 0.2)
    columns = {
        name if chance(rng, 0.9) else "who": pa.array([str(v) for v in values])
        if as_text
        else pa.array(values, _plain(key.type))
    }
    n = len(values)
    yes_no = pa.array(sprinkled(rng, [rng.choice(("yes", "no")) for _ in range(n)], (None, "yes\x00"), 0.2 * hostility))
    columns["label"] = yes_no if chance(rng, 0.6) else column(rng, n, hostility)
    if times_like is not None and len(times_like):
        places = [rng.randrange(len(times_like)) for _ in range(n)]
        columns["cutoff"] = (
            times_like.take(pa.array(places, pa.int64())) if chance(rng, 0.8) else times(rng, n, hostility)[0]
        )
    for field in names(rng, rng.choice((0, 1, 3)), hostility):
        columns[field] = column(rng, n, hostility)
    return pa.table(columns)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if isinstance(kind, pa.DictionaryType) else kind


FORMS = (
    "arrow",
    "polars",
    "lazy",
    "pandas",
    "pandas arrow",
    "reader",
    "parquet",
    "parts",
    "glob",
    "csv",
    "csv.gz",
    "csv parts",
)


def form(rng: Random) -> str:
    """Return the form of a table, which is rarely a database."""
    return rng.choices((*FORMS, *lakes.FORMS), [8] * len(FORMS) + [2, 3])[0]


def source(rng: Random, table: pa.Table, folder: Path, form: str) -> Callable[[], Any]:
    """Return a function that returns the table in a form: an object in memory, a path below a folder, or an address."""
    try:
        return _source(rng, table, folder, form)
    except NO_SOURCE:
        return lambda: table


def _source(rng: Random, table: pa.Table, folder: Path, form: str) -> Callable[[], Any]:
    cut = rng.randint(0, len(table))
    if form in ("arrow", "reader"):
        chunked = pa.concat_tables([table[:cut], table[cut:]])
        return lambda: chunked if form == "arrow" else chunked.to_reader()
    if form in ("polars", "lazy"):
        frame = pl.DataFrame(table)
        return lambda: frame if form == "polars" else frame.lazy()
    if form.startswith("pandas"):
        frame = table.to_pandas(types_mapper=pd.ArrowDtype) if form == "pandas arrow" else table.to_pandas()
        return lambda: frame
    if form in lakes.FORMS:
        address = lakes.stored(rng, table, folder, form)
        return lambda: address
    folder.mkdir()
    ending = form.partition(" ")[0] if "csv" in form else "parquet"
    whole = "parts" not in form and form != "glob"
    quoted = chance(rng, 0.5)
    for place, part in enumerate([table] if whole else [table[:cut], table[cut:]]):
        path = folder / f"events-{place}.{ending}"
        if ending == "parquet":
            pq.write_table(
                part, path, row_group_size=rng.choice((1, 7, 1000)), compression=rng.choice(("none", "zstd", "snappy"))
            )
        else:
            write_csv(part, path, quoted)
    return lambda: folder / f"events-0.{ending}" if whole else str(folder / "*") if form == "glob" else folder


def permuted(table: pa.Table, order: list[int]) -> pa.Table:
    """Return the rows of a table in an order."""
    columns = []
    for column in table.columns:
        kind = column.type
        if kind in (pa.string_view(), pa.binary_view()):  # Arrow cannot take rows of these
            column = column.cast(pa.large_string() if kind == pa.string_view() else pa.large_binary())
        columns.append(column.take(pa.array(order, pa.int64())).cast(kind))
    return pa.table(columns, names=table.column_names)


def write_csv(table: pa.Table, path: Path, quoted: bool = False) -> None:
    """Write a table as CSV, with Python's text of each value, and nulls as empty fields without quotes."""

    def field(value: Any) -> str:
        text = "" if value is None else str(value)
        needs = value is not None and (quoted or not text or any(character in text for character in ',"\n\r'))
        return '"' + text.replace('"', '""') + '"' if needs else text

    rows = [table.column_names, *zip(*[part.to_pylist() for part in table.columns], strict=True)]
    content = "".join(",".join(map(field, row)) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content) if path.name.endswith(".gz") else content)
