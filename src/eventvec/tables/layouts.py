"""Layouts of Arrow columns: views, run ends and narrow decimals become the types that the other modules know."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from eventvec.errors import DataError, shown


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that `plain` gives a column."""
    types = pa.types
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_decimal32(kind) or types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, plain_type(kind.value_type), kind.ordered)
    if types.is_list(kind) or types.is_large_list(kind):  # Arrow 21 cannot take rows of lists of views
        make = pa.list_ if types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_without_views(kind.value_type)))
    return kind


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Return the type of a list's elements with plain texts and bytes, also in the members of a structure."""
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_without_views(part.type)) for part in kind])
    return plain_type(kind) if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind) else kind


def plain(table: pa.Table, where: str) -> pa.Table:
    """Return a table with columns of plain types, after a check of what could not be read safely.

    The check finds places outside a dictionary and text that is not UTF-8, which damaged files and tables that were
    put together by hand have.
    """
    for place, field in enumerate(table.schema):
        if pa.types.is_primitive(field.type):
            continue
        column = table.column(place)
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise DataError(
                f"column {shown(field.name)} of {where} is damaged: it holds {field.type} values that are no UTF-8 "
                "text, lie outside their dictionary, or are out of range; write it again"
            ) from error
        if (kind := plain_type(field.type)) == field.type:
            continue
        try:
            table = table.set_column(place, field.name, _as_plain(column, kind))
        except pa.ArrowNotImplementedError as error:
            raise DataError(
                f"column {shown(field.name)} of {where} holds {field.type}, which cannot be read; cast it to {kind}"
            ) from error
    return table.replace_schema_metadata()  # by which a part of a file would lose the index of pandas


def _as_plain(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_run_end_encoded(column.type):
        column = pa.chunked_array([pc.run_end_decode(part) for part in column.chunks], column.type.value_type)
        return column if column.type == kind else _as_plain(column, kind)
    if pa.types.is_dictionary(column.type):
        parts = [
            pa.DictionaryArray.from_arrays(part.indices, part.dictionary.cast(kind.value_type), ordered=kind.ordered)
            for part in column.chunks
        ]
        return pa.chunked_array(parts, kind)
    return column.cast(kind)


def polars_series(name: str, column: pa.ChunkedArray) -> pl.Series:
    """Return a column as a polars series, text of a dictionary as text; times with a zone are in UTC."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(pa.timestamp(kind.unit, "UTC"))  # polars does not know every zone that Arrow holds
    if pa.types.is_decimal256(kind):
        column = column.cast(pa.float64())
    if kind == pa.uuid():  # polars 1 does not know it
        column = pa.chunked_array([part.storage for part in column.chunks], kind.storage_type).cast(pa.large_binary())
    try:
        return pl.Series(name, column)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException) as error:
        raise DataError(
            f"column {shown(name)} holds {kind}, which cannot be used here; accepted: numbers, text, booleans, dates, "
            "times"
        ) from error
