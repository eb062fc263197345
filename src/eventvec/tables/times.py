"""Time columns: timestamps, dates, numbers and text as int64 or float64, which can be subtracted without loss."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from eventvec.errors import ConfigError, DataError, printable, shown
from eventvec.schema import Schema, TimeKind, TimeUnit, is_time_zone
from eventvec.sequences import Array
from eventvec.tables.coding import BLOCK, count_and_first, decoded, filled, is_text, nulls, refuse_rows
from eventvec.tables.read_options import Duration as Duration
from eventvec.tables.read_options import Instant as Instant

SECOND = 1_000_000  # in microseconds
DAY = 86_400 * SECOND
LATEST = 2**62 - 1  # integers: the difference of two times fits into 64 bits
EXACT = 2**53  # up to here, floats hold every integer
LONGEST = 2**60  # so that two lengths after the latest time fit into 64 bits
LATEST_FLOAT = 1e38  # floats: the difference of two times fits into float32, as `gap` does
SECONDS = {"w": 7 * 86_400, "d": 86_400, "h": 3600, "m": 60, "s": 1}
MONTHS = {"y": 12, "mo": 1}
UNITS: dict[TimeUnit, tuple[str, int]] = {
    "year": ("1y", 3), "quarter": ("1q", 7), "month": ("1mo", 3), "week": ("1w", 4), "day": ("1d", 3),
    "hour": ("1h", 2), "minute": ("1m", 2), "second": ("1s", 2),
}  # fmt: skip
"""The units of times: what polars calls one, and how many distinct times have to be beginnings of it, because fewer are
so by chance (more than once in a thousand, where times have the next finer unit)."""
LENGTHS: dict[TimeUnit, int] = {"day": DAY, "hour": 3600 * SECOND, "minute": 60 * SECOND, "second": SECOND}
"""The units of which all are of one length, in microseconds, where clocks are never set."""
SAMPLE = 10_000
"""The number of times in which distinct ones are counted."""
ZONED = ("%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z")
PLAIN = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d")

_MONTH = (
    r"\b(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?|"
    r"dec(ember)?)\b"
)
LIKE_DATES = {
    r"(19|20)\d\d(0[1-9]|1[0-2])": "months (YYYYMM)",
    r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])": "dates (YYYYMMDD)",
    r"(19|20)\d\d-(0[1-9]|1[0-2])": "months (YYYY-MM)",
    r"(19|20)\d\d[./](0?[1-9]|1[0-2])": "months (such as YYYY/MM)",
    r"\d\d?[./-](19|20)\d\d": "months (such as MM/YYYY)",
    r"(19|20)\d\d[ -]?q[1-4]|q[1-4][ /-]?(19|20)\d\d": "quarters (such as 2024Q1)",
    r"(19|20)\d\d[ -]?w\d\d?": "weeks (such as 2024W07)",
    r"\d\d?\.\d\d?\.(19|20)?\d\d": "dates (such as DD.MM.YYYY)",
    r"\d\d?[/-]\d\d?[/-](19|20)?\d\d": "dates (such as DD/MM/YYYY)",
    r"(19|20)\d\d([./-])\d\d?[./-]\d\d?": "dates (such as YYYY/MM/DD)",
    rf"(\d\d?[ .-]*)?{_MONTH}[ .,'-]+\d[\d ,]*|\d\d?[ .-]*{_MONTH}": "dates (with names of months)",
}
"""What texts look like that match a pattern, in small letters and without a time of day."""

ISO = (
    "ISO 8601, all with a zone or all without; for other formats set time_format= (--time-format), in estimators "
    "reading={'time_format': ...}"
)
"""Which texts are times of events, for messages."""


class EpochUnit(NamedTuple):
    """A unit in which computers count the time since 1970: its name in full, and how many of it are in a second."""

    words: str
    per_second: int


EPOCHS = {
    "s": EpochUnit("seconds", 1),
    "ms": EpochUnit("milliseconds", 10**3),
    "us": EpochUnit("microseconds", 10**6),
    "ns": EpochUnit("nanoseconds", 10**9),
}
"""The units of numbers since 1970 (UTC) that `time_format` accepts."""

YEARS_1990_TO_2040 = (631_152_000, 2_208_988_800)
"""The seconds since 1970 of the years in which numbers look like times; those of the four units do not overlap."""


class Times(NamedTuple):
    """A time column: `values` `(rows,)`, `missing` `(rows,)` bool, and the kind and zone for the schema."""

    values: Array
    missing: Array
    kind: TimeKind
    zone: str | None


def parse_times(name: str, column: pa.ChunkedArray, time_format: str | None = None, of: str = "") -> Times:
    """Return a time column as int64 microseconds since 1970 (UTC), or int64 or float64 in its own unit.

    Args:
        name: The column, for messages.
        column: Timestamps of any unit, dates, integers, floats, or text.
        time_format: The strptime format of text, or of integers such as 20130131; or s, ms, us or ns for numbers of
            that unit since 1970. Without it, text is ISO 8601. Columns of a time type ignore it.
        of: A table whose times have no option for their format, for messages, such as `the labels`.
    """
    column = decoded(column)
    kind = column.type
    if time_format in EPOCHS and not pa.types.is_temporal(kind):
        return _since_1970(name, column, time_format)
    if is_text(kind) or (time_format and pa.types.is_integer(kind)):
        column = _read_text(name, column.cast(pa.large_string()), time_format, of)
    missing = nulls(column)
    kind = column.type
    try:
        if pa.types.is_timestamp(kind):
            microseconds = column.cast(pa.timestamp("us", kind.tz), safe=kind.unit != "ns")  # nanoseconds are cut off
            zone = kind.tz if is_time_zone(kind.tz) else "UTC"
            return Times(_integers(name, microseconds), missing, "timestamp", zone)
        if pa.types.is_date(kind):
            days = _integers(name, column.cast(pa.date32()).cast(pa.int32()), LATEST // DAY)
            return Times(days * DAY, missing, "date", None)
        if pa.types.is_integer(kind):
            return Times(_integers(name, column), missing, "integer", None)
    except pa.ArrowInvalid as error:
        raise DataError(f"column {shown(name)} holds {kind} values beyond 64-bit integers or microseconds") from error
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = filled(column.cast(pa.float64()), np.nan)
        refuse_rows(name, np.isinf(values), "infinite time", "; every time must be finite")
        return Times(_within(name, values, LATEST_FLOAT), np.isnan(values), "float", None)
    accepted = "timestamps, dates, numbers, ISO text"
    raise DataError(f"column {shown(name)} cannot be the time: it holds {kind}; accepted: {accepted}")


def _since_1970(name: str, column: pa.ChunkedArray, unit: str) -> Times:
    """Return numbers of a unit since 1970, or texts of such numbers, as whole microseconds.

    Whole nanoseconds are cut off, as those of timestamps are, and floats are rounded.
    """
    series, per_second = pl.Series(column), EPOCHS[unit].per_second
    if series.dtype == pl.String:
        text = series.str.strip_chars()
        whole = text.cast(pl.Int64, strict=False)
        series = whole if whole.null_count() == text.null_count() else text.cast(pl.Float64, strict=False)
        unreadable = (series.is_null() & text.is_not_null()).to_numpy()
        numbers = f"; accepted: numbers, which are {EPOCHS[unit].words} since 1970 (time_format={unit!r})"
        refuse_rows(name, unreadable, "unreadable time", numbers)
    if not series.dtype.is_numeric():
        raise DataError(
            f"column {shown(name)} cannot be {EPOCHS[unit].words} since 1970: it holds {column.type}; accepted: "
            "numbers, or text of numbers"
        )
    if not series.dtype.is_integer():
        series = series.cast(pl.Float64)
        missing = (series.is_null() | series.is_nan()).to_numpy()
        values = np.where(missing, 0, series.fill_null(0).to_numpy())
        _within(name, values, LATEST * per_second / SECOND)  # an infinite time too
        seconds = np.floor(values / per_second)
        rest = (values - seconds * per_second) * (SECOND / per_second)
        microseconds = seconds.astype(np.int64) * SECOND + np.rint(rest).astype(np.int64)
        return Times(microseconds, missing, "timestamp", "UTC")
    missing = series.is_null().to_numpy()
    whole_numbers = series.fill_null(0).to_numpy()
    _within(name, whole_numbers, LATEST * per_second // SECOND)
    integers = whole_numbers.astype(np.int64)
    factor = SECOND // per_second
    return Times(integers * factor if factor else integers // (per_second // SECOND), missing, "timestamp", "UTC")


def epoch_unit(low: float, high: float) -> EpochUnit | None:
    """Return the unit in which numbers from low to high look like times since 1970, in 1990 to 2040, if any."""
    first, last = YEARS_1990_TO_2040
    units = EPOCHS.values()
    return next((unit for unit in units if first * unit.per_second <= low <= high < last * unit.per_second), None)


def epoch_note(name: str, times: Times) -> tuple[str, ...]:
    """Return a note about a time column of plain numbers that look like times since 1970, if it is one.

    Such numbers are not read as calendar times of their own accord, because the numbers of a later table could look
    otherwise.
    """
    values = times.values[~times.missing] if times.missing.any() else times.values
    plain = times.kind in ("integer", "float") and len(values)
    unit = epoch_unit(float(values.min()), float(values.max())) if plain else None
    if unit is None:
        return ()
    option = next(name for name, each in EPOCHS.items() if each == unit)
    return (
        f"the times in {shown(name)} look like {unit.words} since 1970 and are read as plain numbers; for calendar "
        f"times set time_format={option!r} (--time-format {option}), for later tables too",
    )


def date_like(text: str) -> bool:
    """Return whether a text looks like a date or a month, so that a message may show it: it is no key."""
    return _look_of(pl.Series([text]), least=1) is not None


def look_of(column: pl.Series) -> str | None:
    """Return what times most texts look like, or all numbers; None if they look like none.

    Args:
        column: Texts or numbers, none of them missing. Those of `LIKE_DATES` may have a time of day; numbers may also
            be times since 1970.

    Example:
        >>> look_of(pl.Series(["3.1.2024", "24.12.2024 18:00"])), look_of(pl.Series([20240103, 20241224]))
        ('dates (such as DD.MM.YYYY)', 'dates (YYYYMMDD)')
    """
    numeric = column.dtype.is_numeric()
    if not numeric and column.dtype != pl.String:
        return None
    if numeric and (column == column.floor()).all():
        column = column.cast(pl.Int64, strict=False)
    texts = column.cast(pl.String)
    if look := _look_of(texts, least=len(texts) if numeric else len(texts) // 2 + 1):
        return look
    numbers = texts.str.strip_chars().cast(pl.Float64, strict=False)
    unit = None if numbers.null_count() else epoch_unit(numbers.min(), numbers.max())  # type: ignore[arg-type]
    return None if unit is None else f"{unit.words} since 1970"


def _look_of(texts: pl.Series, least: int) -> str | None:
    """Return what at least so many texts look like by `LIKE_DATES`, if there is such a look."""
    texts = texts.str.strip_chars().str.to_lowercase()
    looks = (look for form, look in LIKE_DATES.items()
             if texts.str.contains(rf"^({form})([ t].{{0,16}})?$").sum() >= least)  # fmt: skip
    return next(looks, None)


def _within(name: str, values: Array, limit: float) -> Array:
    """Return times, of which none is beyond a limit: the difference of two of them would overflow."""
    beyond = (values < -limit) | (values > limit)  # not by the absolute value, which overflows for the least integer
    within = "; times must lie within it, because differences of times must be computable"
    refuse_rows(name, beyond, "time", f" beyond ±{limit:.3g}{within}")
    return values


def instant(schema: Schema, value: Instant) -> int | float:
    """Return a point in time in the unit of a schema's time column.

    A date is the start of the day in the zone of the events; a time without a zone is in UTC.
    """
    value = without_numpy(value)
    limit = LATEST_FLOAT if schema.time_kind == "float" else LATEST
    try:
        time = _micros(value, schema.time_zone) if schema.clock else _number(schema, value, limit)
    except (ValueError, OverflowError) as error:
        accepted = f"a number from {-limit:.3g} to {limit:.3g}"
        if schema.clock:
            accepted = "an ISO time such as 2013-07-01 or 2013-07-01T12:00"
        raise ConfigError(
            f"{shown(value)} cannot be compared with column {shown(schema.time)}, which holds {schema.time_kind} "
            f"values; accepted: {accepted}"
        ) from error
    return time


class Length(NamedTuple):
    """A length of time: months and days of the calendar, and a rest in the unit of `Sequences`."""

    months: int = 0
    days: int = 0
    rest: int | float = 0

    def after(self, moments: Array, zone: str | None) -> Array:
        """Return the moments that are this length of time later, on the calendar and the clocks of a zone."""
        if not self.months and _is_utc(zone):
            return moments + (self.days * DAY + self.rest)
        if self.months or self.days:
            moments = in_utc(local_times(moments, zone).dt.offset_by(f"{self.months}mo{self.days}d"), zone)
        return moments + self.rest


def duration(schema: Schema, value: Duration) -> Length:
    """Return a length of time, at least 0, for the times of a schema's time column."""
    value = without_numpy(value)
    try:
        if isinstance(value, bool):
            raise ValueError
        length = _calendar_length(value) if schema.clock else Length(rest=_plain_length(schema, value))
        bound = LATEST_FLOAT if schema.time_kind == "float" else LONGEST
        if not 0 <= (31 * length.months + length.days) * DAY + length.rest <= bound:  # false for NaN too
            raise ValueError
    except (TypeError, ValueError, OverflowError) as error:
        whole = "a whole number" if schema.time_kind == "integer" else "a number"
        accepted = "text such as 30d, 12h, 90s, 1mo or 1y, or a timedelta" if schema.clock else whole
        raise ConfigError(
            f"{shown(value)} is no length of time for column {shown(schema.time)}, which holds {schema.time_kind} "
            f"values; accepted: {accepted}, not below 0"
        ) from error
    return length


def _calendar_length(value: Duration) -> Length:
    if isinstance(value, timedelta):
        return Length(0, value.days, value.seconds * SECOND + value.microseconds)
    if value in (0, "0"):
        return Length()
    parts = re.fullmatch(r"([\d.]+) ?(y|mo|w|d|h|m|s)", str(value).strip())
    if parts is None:
        raise ValueError
    number, unit = float(parts[1]), parts[2]
    if unit in MONTHS:
        return Length(months=_whole(number * MONTHS[unit]))
    microseconds = round(number * SECONDS[unit] * SECOND)
    if unit in ("w", "d") and microseconds % DAY == 0:
        return Length(days=microseconds // DAY)
    return Length(rest=microseconds)


def _plain_length(schema: Schema, value: Duration) -> int | float:
    number = float(value)  # type: ignore[arg-type]
    return number if schema.time_kind == "float" else int(value) if isinstance(value, int) else _whole(number)


def _whole(number: float) -> int:
    if not number.is_integer():
        raise ValueError
    return int(number)


def unit_of(parsed: Times) -> TimeUnit | None:
    """Return the coarsest unit of the calendar of which all times are beginnings, in their zone; None if none is.

    Dates are at least days, however few they are.

    Example:
        >>> months = pl.Series(["2024-01-01", "2024-02-01", "2024-05-01"]).str.to_datetime(time_unit="us")
        >>> unit_of(Times(months.cast(pl.Int64).to_numpy(), np.zeros(3, bool), "timestamp", None))
        'month'
    """
    return unit_of_all([parsed])


def unit_of_all(parts: Iterable[Times]) -> TimeUnit | None:
    """Return the unit of the times of several parts of a table, see `unit_of`."""
    units, some, dates = dict(UNITS), np.empty(0, np.int64), True
    for parsed in parts:
        if parsed.kind not in ("timestamp", "date"):
            return None
        values = parsed.values[~parsed.missing] if parsed.missing.any() else parsed.values
        sample = np.unique(values[:: max(1, len(values) // SAMPLE)])
        for unit in list(units):
            if any((beginnings(unit, each, parsed.zone) != each).any() for each in (sample, values)):
                del units[unit]
        some, dates = np.unique(np.append(some, sample)), dates and parsed.kind == "date"
    evident = (unit for unit, (_, least) in units.items() if len(some) >= least or (unit == "day" and dates))
    return next(evident, None)


def coarser_unit(one: TimeUnit | None, other: TimeUnit | None) -> TimeUnit | None:
    """Return the coarser of two units."""
    return min((unit for unit in (one, other) if unit is not None), key=list(UNITS).index, default=None)


def finest_unit(units: Sequence[TimeUnit | None]) -> TimeUnit | None:
    """Return the unit of all times, of parts with these units: the finest of them, or None if a part has none."""
    return None if None in units else next(unit for unit in reversed(UNITS) if unit in units)


def beginnings(unit: TimeUnit, moments: Array, zone: str | None) -> Array:
    """Return the moments, in microseconds since 1970 (UTC), at which the units that hold some moments begin."""
    if _is_utc(zone) and unit in LENGTHS:
        return np.asarray(moments - moments % LENGTHS[unit])
    clocks = local_times(moments, zone)
    begin = clocks.dt.truncate(UNITS[unit][0])
    if unit in ("hour", "minute", "second"):  # which may be shown twice, where clocks are set back
        return np.asarray(moments - (clocks - begin).cast(pl.Int64).to_numpy())
    return in_utc(begin, zone)


def next_beginning(unit: TimeUnit, moment: int, zone: str | None) -> int:
    """Return the moment at which the unit after that of a moment begins."""
    after = local_times(np.array([moment]), zone).dt.truncate(UNITS[unit][0]).dt.offset_by(UNITS[unit][0])
    return int(in_utc(after, zone)[0])


def _is_utc(zone: str | None) -> bool:
    """Return whether clocks are never set in a zone, because it is UTC."""
    return zone in (None, "UTC")


def local_times(moments: Array, zone: str | None) -> pl.Series:
    """Return moments, in microseconds since 1970 (UTC), as the clocks of a zone show them."""
    utc = pl.Series(moments).cast(pl.Datetime("us"))
    if zone is None or _is_utc(zone):
        return utc
    utc = utc.dt.replace_time_zone("UTC")
    return utc.dt.convert_time_zone(zone).dt.replace_time_zone(None)


def in_utc(times: pl.Series, zone: str | None) -> Array:
    """Return the moments, in microseconds since 1970 (UTC), at which the clocks of a zone show some times.

    Of two such moments it is the first; a time that the clocks skip counts as if they had not been changed yet.
    """
    if zone is None or _is_utc(zone):
        return times.cast(pl.Int64).to_numpy()
    before = times - timedelta(days=1)
    offset = local_times(before.cast(pl.Int64).to_numpy(), zone) - before
    shown_once = times.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    moments = shown_once.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return moments.fill_null(times - offset).cast(pl.Int64).to_numpy()


def without_numpy(value: Any) -> Any:
    """Return a point in time as Python has it: numbers of numpy as numbers, its times as datetimes or dates."""
    if isinstance(value, np.datetime64) and np.datetime_data(value.dtype)[0] == "ns":
        value = value.astype("datetime64[us]")  # Python has no nanoseconds, and numpy would return a whole number
    return value.item() if isinstance(value, np.generic) else value


def same_kind(name: str, times: Times, schema: Schema, of: str = "") -> Times:
    """Return times in the kind of a schema.

    Dates and timestamps may mix. Integers become floats where the schema has floats, and whole floats become integers.
    A date among timestamps is the start of the day in the zone of the events. `of` names the table as in `parse_times`.
    """
    if times.kind == "date" and schema.time_kind == "timestamp":
        return times._replace(values=in_utc(pl.Series(times.values).cast(pl.Datetime("us")), schema.time_zone))
    if times.kind == schema.time_kind or (schema.clock and times.kind in ("timestamp", "date")):
        return times
    if schema.time_kind == "float" and times.kind == "integer":
        return times._replace(values=times.values.astype(np.float64), kind="float")
    if schema.time_kind == "integer" and times.kind == "float":  # as pandas holds integers of which some are missing
        values = np.where(times.missing, 0, times.values)
        if (values == np.floor(values)).all() and (np.abs(values) <= EXACT).all():
            return times._replace(values=values.astype(np.int64), kind="integer")
    numeric = schema.clock and times.kind in ("integer", "float")
    hint = f"; numbers since 1970 become times with time_format= (--time-format): {', '.join(EPOCHS)}"
    if of:
        hint = "; convert them to dates or timestamps first"
    hint, table = hint if numeric else "", f" of {of}" if of else ""
    raise DataError(
        f"column {shown(name)}{table} holds {times.kind} values, but column {shown(schema.time)} of the schema holds "
        f"{schema.time_kind} values; both must be of the same kind{hint}"
    )


def intervals(values: Array, heads: Array, clock: bool) -> Array:
    """Return `(events,)` float32 time since the previous event, NaN at each row's first; seconds for calendar times."""
    gap = np.empty(len(values), np.float32)
    for start in range(1, len(values), BLOCK):
        differences = np.diff(values[start - 1 : start + BLOCK])
        gap[start : start + BLOCK] = differences / (SECOND if clock else 1)  # in float64, rounded once
    gap[heads] = np.nan
    return gap


def to_arrow(schema: Schema, values: Array, missing: Array | None = None) -> pa.Array:
    """Return times in the type for files: timestamp in microseconds, date, int64 or float64, null where missing."""
    if schema.time_kind == "date":
        return pa.array((values // DAY).astype(np.int32), pa.int32(), mask=missing).view(pa.date32())
    if schema.time_kind == "timestamp":
        return pa.array(values, pa.int64(), mask=missing).view(pa.timestamp("us", schema.time_zone))
    return pa.array(values, pa.int64() if schema.time_kind == "integer" else pa.float64(), mask=missing)


def _micros(value: Instant, zone: str | None) -> int:
    if isinstance(value, str):
        value = date.fromisoformat(value) if len(value) == len("2013-01-31") else datetime.fromisoformat(value)
    if not isinstance(value, date) or value != value:  # pandas' NaT is a date
        raise ValueError
    time = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        return int(in_utc(pl.Series([time], dtype=pl.Datetime("us")), zone)[0])
    elapsed = (time if time.tzinfo else time.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return elapsed.days * DAY + elapsed.seconds * SECOND + elapsed.microseconds


def _number(schema: Schema, value: Instant, limit: float) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    if isinstance(value, str):
        value = int(value) if value.strip().lstrip("+-").isdigit() else float(value)
    if not -limit <= value <= limit:  # false for NaN too
        raise ValueError
    return float(value) if schema.time_kind == "float" else math.ceil(value)  # integers below 3.5 are those below 4


def _integers(name: str, column: pa.ChunkedArray, limit: int = LATEST) -> Array:
    return _within(name, filled(column.cast(pa.int64()), 0), limit)


def _read_text(name: str, column: pa.ChunkedArray, time_format: str | None, of: str) -> pa.ChunkedArray:
    """Return text as dates if all texts are ISO dates, otherwise as timestamps, in UTC if they have zones."""
    text = pl.Series(column, dtype=pl.String).str.strip_chars()
    if time_format is not None:
        formats: tuple[str, ...] = (time_format,)
    else:
        text = text.str.replace(" ", "T", literal=True).str.replace(r"(T.*[+-]\d{2})$", "${1}:00")
        zoned = text.str.contains(r"T.*(Z|[+-]\d{2}:?\d{2})$")
        formats = ZONED if zoned.any() else PLAIN
        naive = int((~zoned & text.str.contains(r"^\d{4}-\d\d-\d\d")).sum())
        if zoned.any() and naive:
            table = f" of {of}" if of else ""
            raise DataError(
                f"column {shown(name)}{table} mixes times with a zone and {naive:,} times without one; accepted: "
                "all with a zone or all without; write all of them in UTC, such as 2024-06-01T12:00Z"
            )
    parsed = _parsed(text, formats[0])
    for alternative in formats[1:]:
        if parsed.null_count() > text.null_count():
            parsed = parsed.fill_null(_parsed(text, alternative))
    unreadable = (parsed.is_null() & text.is_not_null()).to_numpy()
    if unreadable.any():
        first = int(unreadable.argmax())
        value = str(column[first])
        example = f": {shown(value)}" if date_like(value) else ""  # other texts may be a key
        accepted = f"the format {shown(time_format)}" if time_format else _converted(name, value) if of else ISO
        table = f" of {of}" if of else ""
        count = count_and_first(unreadable, "unreadable time").removesuffix(")")
        raise DataError(f"column {shown(name)}{table} has {count}{example}); accepted: {accepted}")
    if time_format is None and (text.str.len_bytes() == len("2013-01-31")).all():
        parsed = parsed.cast(pl.Date)
    return pa.chunked_array([parsed.to_arrow()])


def _converted(name: str, value: str) -> str:
    """Return which times are accepted where their format cannot be given, and how to convert text like a value."""
    column = f'pl.col("{printable(name)}")'
    code = f'{column}.str.to_date("FORMAT")'
    if re.match(r"\s*\d{1,2}\.\d{1,2}\.\d{4}\s*$", value):
        code = f'{column}.str.to_date("%d.%m.%Y")'
    elif re.match(r"\s*\d{4}-\d{1,2}\s*$", value):
        code = f'({column} + "-01").str.to_date()'
    return f"ISO 8601, such as 2024-06-01, all with a zone or all without; convert it first, for example {code}"


def _parsed(text: pl.Series, time_format: str) -> pl.Series:
    return text.str.to_datetime(time_format, time_unit="us", strict=False)
