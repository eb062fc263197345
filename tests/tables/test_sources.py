"""Columns that are read one by one, and statistics that are computed block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from eventvec.errors import DataError
from eventvec.schema import Numeric
from eventvec.tables import Fitting, read, read_table, sources
from eventvec.tables.coding import BLOCK, Coded
from eventvec.tables.scales import scaled
from eventvec.tables.sources import TOGETHER, Source, open_source
from eventvec.tables.times import intervals

TABLE = pa.table({"card": [1, 2], "day": [3, 4], "shop": ["a", "b"], "a.b": [1.0, 2.0], "a": [5, 6]})


def recorded(table: pa.Table, sizes: dict[str, int] | None) -> tuple[Source, list[list[str]]]:
    """Return a source, and a list to which it appends the columns of each read."""
    reads: list[list[str]] = []

    def load(names: Sequence[str]) -> pa.Table:
        reads.append(list(names))
        return table.select(list(names))

    return Source({field.name: field.type for field in table.schema}, load, sizes), reads


def test_large_columns_are_read_one_by_one_when_they_are_needed():
    source, reads = recorded(TABLE, {"day": TOGETHER, "card": TOGETHER})
    columns = source.stream(["day", "card"])
    assert reads == []
    assert next(columns).to_pylist() == [3, 4]
    assert reads == [["day"]]
    assert next(columns).to_pylist() == [1, 2]
    assert next(columns, None) is None


def test_small_columns_and_those_of_a_csv_file_are_read_together():
    for sizes in ({"day": 1, "card": TOGETHER - 1}, None):
        source, reads = recorded(TABLE, sizes)
        assert [column.to_pylist() for column in source.stream(["day", "card"])] == [[3, 4], [1, 2]]
        assert reads == [["day", "card"]]


def test_a_file_is_opened_once_for_all_small_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for place in range(3):
        pq.write_table(pa.table({f"v{i}": [place, i] for i in range(50)}), tmp_path / f"{place}.parquet")
    opened, original = [], pq.ParquetFile
    monkeypatch.setattr(pq, "ParquetFile", lambda file, **options: opened.append(file) or original(file, **options))
    columns = list(open_source(tmp_path).stream([f"v{i}" for i in range(50)]))
    assert [column.to_pylist() for column in columns] == [[0, i, 1, i, 2, i] for i in range(50)]
    assert len(opened) == 3


def test_a_table_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "events.parquet"
    pq.write_table(TABLE, path)
    columns = open_source(path).stream(["card", "day"])
    monkeypatch.setattr(sources, "TOGETHER", 1)
    next(columns)
    pq.write_table(TABLE, path)
    with pytest.raises(DataError, match=r"events\.parquet changed while it was read; read it again"):
        next(columns)


def test_parquet_csv_and_memory_stream_the_same_columns(tmp_path: Path):
    pq.write_table(TABLE, tmp_path / "one.parquet", row_group_size=1)
    pl.DataFrame(TABLE).write_csv(tmp_path / "one.csv")
    for source in (tmp_path / "one.parquet", tmp_path / "one.csv", TABLE, pl.DataFrame(TABLE)):
        names = ["a", "shop", "a.b"]  # Parquet would take a.b for a field of a
        assert [column.to_pylist() for column in open_source(source).stream(names)] == [[5, 6], ["a", "b"], [1.0, 2.0]]


def test_the_files_of_a_folder_are_concatenated(tmp_path: Path):
    for place in range(3):
        shops = [f"shop {place}", None]
        pq.write_table(pa.table({"card": [place, place], "day": [1, 2], "shop": shops}), tmp_path / f"{place}.parquet")
    data = read(tmp_path, key="card", time="day", categorical=["shop"], fitting=Fitting(min_count=1))
    assert data.schema.categorical[0].values == ("shop 0", "shop 1", "shop 2")
    assert data.sequences.values("shop").tolist() == [2, 0, 3, 0, 4, 0]


def test_scales_counts_and_intervals_of_many_blocks_equal_those_of_the_whole():
    rng = np.random.default_rng(0)
    values = rng.lognormal(3, 2, 2 * BLOCK + 5).astype(np.float32)
    values[:BLOCK:2] = np.nan
    values[-5:] = np.nan  # a block without a number
    field = scaled("amount", values, Fitting())
    logs = np.log1p(values[~np.isnan(values)].astype(np.float64))
    assert (field.mean, field.std) == pytest.approx((logs.mean(), logs.std()), rel=1e-7)
    assert scaled("amount", np.full(BLOCK + 1, 0.1, np.float32), Fitting(log=False)).std == 1.0
    assert scaled("amount", np.full(3, np.nan, np.float32), Fitting()) == Numeric("amount")

    codes = rng.integers(-1, 50, len(values)).astype(np.int32)
    texts = pa.array([str(value) for value in range(50)])
    assert Coded(codes, texts).counts().tolist() == [int((codes == value).sum()) for value in range(50)]

    times = np.sort(rng.integers(0, 10**15, len(values)))
    heads = np.array([0, BLOCK, BLOCK + 1])
    expected = np.append(np.nan, np.diff(times) / 10**6).astype(np.float32)
    expected[heads] = np.nan
    np.testing.assert_array_equal(intervals(times, heads, clock=True), expected)


def test_unsorted_rows_give_the_same_data_as_sorted_rows():
    rng = np.random.default_rng(0)
    events = pl.DataFrame({
        "card": rng.integers(0, 300, 5000), "at": rng.integers(0, 10**12, 5000), "shop": rng.integers(0, 9, 5000),
        "amount": rng.normal(size=5000),
    })  # fmt: skip
    kinds = {"key": "card", "time": "at", "categorical": ["shop"], "numeric": ["amount"]}
    shuffled, ordered = read(events, **kinds), read(events.sort("card", "at"), **kinds)
    assert shuffled.keys.equals(ordered.keys)
    for name, column in ordered.sequences.columns.items():
        assert isinstance(column, torch.Tensor)
        torch.testing.assert_close(shuffled.sequences.values(name), column, equal_nan=True, rtol=0, atol=0)


def damage(content: bytes, start: int, stop: int, fill: int) -> bytes:
    """Return the content of a file with other bytes at some places."""
    places = range(len(content))[start:stop]
    return bytes(fill if place in places else byte for place, byte in enumerate(content))


@pytest.mark.parametrize(
    ("start", "stop", "fill"),
    [(4, 60, 0), (4, 60, 255), (-300, -150, 0), (-8, -4, 0), (-8, -5, 255), (0, -1000, 0)],
)
@pytest.mark.parametrize("key", ["card", "name"])
def test_one_damaged_parquet_file_among_several_is_refused(
    tmp_path: Path, start: int, stop: int, fill: int, key: str
) -> None:
    for place in range(3):
        table = pa.table({"card": range(500), "day": range(500), "name": [f"name {i}" for i in range(500)]})
        pq.write_table(table, tmp_path / f"{place}.parquet", compression="none")
    path = tmp_path / "1.parquet"
    path.write_bytes(damage(path.read_bytes(), start, stop, fill))
    with pytest.raises(DataError, match=r"1\.parquet is (not a|a damaged) Parquet file"):
        list(open_source(tmp_path).stream([key, "day", "card", "name"]))


def test_places_outside_the_dictionary_of_a_parquet_file_are_refused(tmp_path: Path) -> None:
    keys = pa.array(["a", "b"] * 500).dictionary_encode()
    pq.write_table(pa.table({"card": keys, "day": range(1000)}), tmp_path / "e.parquet", compression="none")
    content = (tmp_path / "e.parquet").read_bytes()
    refused = 0
    for place in range(4, 250):
        (tmp_path / "e.parquet").write_bytes(damage(content, place, place + 1, 255))
        try:
            read(tmp_path / "e.parquet", key="card", time="day", numeric=[])
        except DataError as error:
            refused += "is damaged: it holds" in str(error)
    assert refused


def test_names_of_columns_that_are_no_text_are_a_damaged_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"card": [1], "qqqq": [2]}), tmp_path / "e.parquet", store_schema=False)
    content = (tmp_path / "e.parquet").read_bytes()
    for count in (1, 2):  # in the schema, and in the row group
        (tmp_path / "e.parquet").write_bytes(content[::-1].replace(b"qqqq", b"\xff\xfe\xfd\xfc", count)[::-1])
        with pytest.raises(DataError, match=r"e\.parquet is a damaged Parquet file"):
            list(open_source(tmp_path / "e.parquet").stream(["card"]))


FRAME = pd.DataFrame({"card": [1, 2], "day": [3, 4], "shop": ["a", "b"]})


@pytest.mark.parametrize(
    ("name", "column", "kind"),
    [
        ("card", pd.Series(["secret-7", 1], dtype=object), "object"),
        ("card", pd.Series([2**70, 1], dtype=object), "object"),
        ("shop", pd.Series(["a", 1], dtype=object), "object"),
        ("shop", pd.Series([object()] * 2, dtype=object), "object"),
        ("shop", pd.Categorical(["a", 1]), "category"),
        ("x", pd.arrays.SparseArray([1.0, 0.0]), "Sparse"),
        ("x", np.array([1j, 2]), "complex128"),
    ],
)
def test_columns_of_pandas_that_arrow_cannot_hold_are_refused_by_name(name: str, column: Any, kind: str) -> None:
    with pytest.raises(DataError) as caught:
        read(FRAME.assign(**{name: column}), key="card", time="day")
    message = str(caught.value)
    assert message.startswith(f"column '{name}' mixes types, or has values that Arrow cannot hold ({kind}")
    assert message.endswith("cast it, or leave it out of the table")
    assert "secret" not in message


def test_columns_of_pandas_that_are_not_used_are_not_converted() -> None:
    frame = FRAME.assign(x=np.array([1j, 2]))
    assert read_table(frame, ["shop"])["shop"].to_list() == ["a", "b"]
    indexed = read_table(FRAME.set_index("shop"), ["card", "shop"])
    assert indexed.rows() == [(1, "a"), (2, "b")]
    with pytest.raises(DataError, match="no column 'shap'; did you mean 'shop'"):
        read_table(FRAME, ["shap"])


@pytest.mark.filterwarnings("ignore:The DataFrame has column names of mixed type")
def test_names_of_columns_that_are_no_text_are_read_as_text() -> None:
    table = FRAME.rename(columns={"card": 0, "day": ("a", "b"), "shop": None})
    data = read(table, key="0", time="('a', 'b')", categorical=["None"])
    assert (data.schema.key, data.schema.time, len(data)) == ("0", "('a', 'b')", 2)
    with pytest.raises(DataError, match="the table has more than one column '0'; rename"):
        read(FRAME.rename(columns={"card": 0, "day": "0"}), key="0", time="shop")


def test_a_name_with_a_nul_character_is_refused_in_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    columns = {"card": [1, 1], "day": [1, 2], "sh\0p": [1.5, 2.5]}
    pq.write_table(pa.table(columns), tmp_path / "events.parquet")
    frame = pl.DataFrame(columns)
    for table in (frame, frame.lazy(), pd.DataFrame(columns), pa.table(columns), tmp_path / "events.parquet"):
        with pytest.raises(DataError) as refused:
            read(table, key="card", time="day")
        assert str(refused.value) == r"the name of column 'sh\x00p' has a NUL character; rename the column"
    assert capfd.readouterr() == ("", "")  # polars would print backtraces


def test_integers_of_polars_that_arrow_lacks_are_text() -> None:
    frame = pl.DataFrame({"card": [1, 2], "day": [1, 2]})
    kinds = [kind for kind in (pl.Int128, getattr(pl, "UInt128", None)) if kind is not None]
    for kind in kinds:
        assert read(frame.with_columns(pl.col("card").cast(kind)), key="card", time="day").keys.to_pylist() == [
            "1",
            "2",
        ]
    nested = frame.with_columns(x=pl.concat_list(pl.col("card").cast(pl.Int128)))
    with pytest.raises(DataError, match=r"column 'x' mixes types, or has values that Arrow cannot hold \(List"):
        read(nested, key="card", time="day")


def fails(*_: Any) -> Any:
    raise ValueError("secret-7")


def batches() -> Iterator[pa.RecordBatch]:
    yield TABLE.to_batches()[0]
    fails()


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (lambda folder: pl.LazyFrame({"card": [1]}).select("absent"), "the LazyFrame .*: it raises ColumnNotFound"),
        (lambda folder: pl.LazyFrame({"card": ["secret-7"]}).cast(pl.Int64), "the LazyFrame .*: it raises Invalid"),
        (lambda folder: pl.LazyFrame({"card": [1]}).map_batches(fails), "the LazyFrame cannot be read as a table"),
        (lambda folder: pl.scan_csv(folder / "absent.csv"), "the LazyFrame .*: it raises FileNotFoundError"),
        (lambda folder: pa.RecordBatchReader.from_batches(TABLE.schema, batches()), "type RecordBatchReader cannot"),
        (lambda folder: pd.Series([1]), "an object of type Series cannot be read as a table"),
        (lambda folder: pl.Series([1]), "an object of type Series cannot be read as a table"),
        (lambda folder: pa.chunked_array([[1]]), "an object of type ChunkedArray cannot be read as a table"),
    ],
)
def test_objects_that_fail_when_they_are_read_are_refused(
    tmp_path: Path, source: Callable[[Path], Any], what: str
) -> None:
    with pytest.raises(DataError, match=what) as caught:
        open_source(source(tmp_path))
    assert "secret" not in str(caught.value)
    assert str(caught.value).endswith("(polars, pandas, pyarrow, DuckDB)")


def test_values_of_a_batch_are_not_taken_for_names() -> None:
    batch = pa.record_batch({"card": ["secret-7"] * 2, "alias": ["secret-7"] * 2, "day": [1, 2]})
    assert read(batch, key="card", time="day", numeric=[]).sequences.total == 2


def test_repeated_names_are_counted_once_and_listed_in_part() -> None:
    table = pa.table([pa.array([1])] * 3000, names=[f"c{place // 2}" for place in range(3000)])
    with pytest.raises(DataError, match=r"more than one column 'c0', 'c1', .*, … \(1,500 in all\); rename"):
        open_source(table)


@pytest.mark.parametrize("table", [pa.table({}), pl.DataFrame(), pd.DataFrame()])
def test_tables_without_columns_are_refused(table: Any) -> None:
    with pytest.raises(DataError, match="there is no column 'card'; accepted: none"):
        read(table, key="card", time="day")
    with pytest.raises(DataError, match="the table of labels has no column 'card'; accepted: none"):
        read_table(table, ["card"], "the table of labels")
