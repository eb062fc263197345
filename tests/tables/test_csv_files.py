"""CSV files that are damaged, of another format or ambiguous are refused; others are read, by a schema too."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from eventvec.errors import DataError
from eventvec.schema import Schema
from eventvec.tables import Fitting, csv_files, read
from eventvec.tables.sources import open_source

EVERY = Fitting(min_count=1)
TEXT = "card,at,shop\n1,3,a\n1,2,b\n2,1,a\n"
UNREADABLE = "events.csv cannot be read as CSV; accepted: UTF-8 text"


def written(folder: Path, content: str | bytes, name: str = "events.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path: Path) -> str:
    """Return the message with which a file is refused."""
    with pytest.raises(DataError) as caught:
        read(path, key="card", time="at", categorical=["shop"])
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        TEXT.replace("\n", "\r\n"),
        "\ufeff" + TEXT,
        'card,"at","shop"\r\n1,3,"a, ""b""\nc"\n1,2,b\n2,1,\n',
        gzip.compress(TEXT.encode(), mtime=0),
        TEXT.replace("\n", ",4\n").replace("shop,4", "shop,été"),
        TEXT.replace("\n", ",4\n").replace("shop,4", "shop,"),
    ],
    ids=["CRLF", "byte order mark", "quotes", "gzip", "letters", "one empty name"],
)
def test_accepted_forms_are_read(tmp_path: Path, content: str | bytes):
    data = read(written(tmp_path, content), key="card", time="at", categorical=["shop"])
    assert (len(data), data.sequences.total) == (2, 3)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (TEXT.encode("utf-16"), UNREADABLE),
        (TEXT.encode("utf-16-le"), "events.csv is not text in UTF-8: its first line has NUL bytes, as UTF-16"),
        (TEXT.encode("utf-32-le"), "events.csv is not text in UTF-8: its first line has NUL bytes"),
        (bytes(1000), "events.csv is not text in UTF-8: its first line has NUL bytes"),
        (TEXT.replace("shop", "sh\0p"), "events.csv is not text in UTF-8: its first line has NUL bytes"),
        (TEXT.replace("shop", "été").encode("latin-1"), UNREADABLE),
        (b"PAR1" + bytes(100) + b"PAR1", "events.csv is a Parquet file; give it a name that ends in .parquet"),
        (b"PK\x03\x04" + bytes(range(256)), "events.csv is not text in UTF-8"),
        (b"\x28\xb5\x2f\xfd\n" + bytes(range(256)), UNREADABLE),
        (gzip.compress(TEXT.encode(), mtime=0)[:-12], UNREADABLE),
        (gzip.compress(TEXT.encode(), mtime=0)[:-4], UNREADABLE),
        (gzip.compress(TEXT.encode(), mtime=0)[:-8] + b"12345678", UNREADABLE),
        (b"\x1f\x8b", UNREADABLE),
        ("\n\n", UNREADABLE),
    ],
)
def test_other_formats_and_damaged_files_are_refused(tmp_path: Path, content: str | bytes, expected: str):
    assert expected in refusal(written(tmp_path, content))


@pytest.mark.parametrize(("mark", "name"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_columns_that_are_not_separated_by_commas_are_refused_with_the_remedy(tmp_path: Path, mark: str, name: str):
    message = refusal(written(tmp_path, TEXT.replace(",", mark)))
    assert f"events.csv separates its columns by {name}, and commas are accepted; write it with commas, or" in message
    assert f"pl.read_csv(path, separator={mark!r})" in message
    other = TEXT.replace("card", f"card{mark}")  # beside commas it is a letter like others
    assert len(read(written(tmp_path, other), key=f"card{mark}", time="at", categorical=["shop"])) == 2


def test_lines_that_end_in_a_carriage_return_alone_are_refused_without_their_values(tmp_path: Path):
    message = refusal(written(tmp_path, TEXT.replace("\n", "\r").replace("1,3", "4000123412341234,3")))
    assert "events.csv ends lines with a carriage return (CR) alone; accepted: lines that end in a line feed" in message
    assert "4000" not in message


@pytest.mark.parametrize(
    ("header", "repeated"), [("v,v", "'v'"), ("v,v,v_duplicated_0", "'v'"), ('"a,b","a,b"', "'a,b'"), (",", "''")]
)
def test_repeated_names_are_refused(tmp_path: Path, header: str, repeated: str):
    content = f"card,at,shop,{header}\n1,2,a,3,4{',5' if header.count(',') == 2 else ''}\n"
    assert f"events.csv has more than one column {repeated}; rename all but one of each" in refusal(
        written(tmp_path, content)
    )


def test_repeated_values_of_a_file_without_a_line_of_names_are_not_shown(tmp_path: Path):
    message = refusal(written(tmp_path, "4000123412341234,4000123412341234,a\n5,6,b\n"))
    assert "the first line of" in message
    assert "events.csv looks like data, not like column names" in message
    assert "4000" not in message.replace(str(tmp_path), "")


def test_a_name_with_the_characters_of_a_glob_is_a_file(tmp_path: Path):
    path = written(tmp_path, TEXT, "events[1].csv")
    written(tmp_path, TEXT.replace("card", "other"), "events1.csv")
    assert open_source(path).load(["card", "at"]).to_pydict() == {"card": [1, 1, 2], "at": [3, 2, 1]}


@pytest.mark.parametrize("content", [TEXT.replace("card,at", "at,card"), "card", None])
def test_a_file_that_changes_between_opening_and_reading_is_refused(tmp_path: Path, content: str | None):
    path = written(tmp_path, TEXT)
    source = open_source(path)
    if content is None:
        path.unlink()
    else:
        path.write_text(content + "\n# longer")
    with pytest.raises(DataError, match=r"events\.csv changed while it was read; read it again"):
        source.load(["card"])


def test_csv_keeps_leading_zeros_and_huge_numbers(tmp_path: Path):
    (tmp_path / "e.csv").write_text("zip,t,big\n00501,1,99999999999999999999\n501,2,1\n")
    data = read(tmp_path / "e.csv", key="zip", time="t", categorical=["big"], fitting=EVERY)
    assert data.keys.to_pylist() == ["00501", "501"]
    assert data.schema.categorical[0].values == ("1", "99999999999999999999")


@pytest.mark.parametrize("value", ["1.50", "1E5", "0.10", "True", "-0", "NaN", "007", "2024-01-02", "1"])
def test_text_of_a_csv_file_stays_text_whatever_stands_beside_it(tmp_path: Path, value: str):
    history = pl.DataFrame({"card": ["a", "b"], "day": [1, 2], "shop": ["baker", value]})
    history.write_csv(tmp_path / "history.csv")
    data = read(tmp_path / "history.csv", key="card", time="day", categorical=["shop"], fitting=EVERY)
    assert data.schema.categorical[0].values == tuple(sorted(["baker", value]))
    history[1:].write_csv(tmp_path / "batch.csv")
    batch = read(tmp_path / "batch.csv", schema=data.schema)
    assert batch.sequences.values("shop").tolist() == data.sequences.values("shop").tolist()[1:]


@pytest.mark.parametrize("written", [["5411", "5812"], ["5411.0", "5812.5"], ["true", "false"]])
def test_numbers_of_a_csv_file_are_one_category_however_they_are_written(tmp_path: Path, written: list[str]):
    frame = pl.DataFrame({"card": [1, 2], "day": [1, 2], "code": written})
    frame.write_csv(tmp_path / "history.csv")
    data = read(tmp_path / "history.csv", key="card", time="day", categorical=["code"], fitting=EVERY)
    frame[:1].with_columns(code=pl.lit(written[0].removesuffix(".0"))).write_csv(tmp_path / "batch.csv")
    batch = read(tmp_path / "batch.csv", schema=data.schema)
    assert batch.sequences.values("code").tolist() == data.sequences.values("code").tolist()[:1]


@pytest.mark.parametrize("written", [["1.50", "0.10", "3.00", "2e3", "-0"], ["5411", "7"], ["true", "false"]])
def test_a_cell_of_text_in_a_csv_file_does_not_change_the_numbers_beside_it(tmp_path: Path, written: list[str]):
    frame = pl.DataFrame({"card": 1, "day": range(len(written)), "code": written})
    frame.write_csv(tmp_path / "history.csv")
    data = read(tmp_path / "history.csv", key="card", time="day", categorical=["code"], fitting=EVERY)
    codes = data.sequences.values("code").tolist()
    for text, code in (("free", 1), ("007", 1), ("inf", 1), ("NaN", 0)):
        other = pl.DataFrame({"card": [1, 1], "day": [98, 99], "code": ["free", text]})
        pl.concat([frame, other], how="vertical_relaxed").write_csv(tmp_path / "batch.csv")
        batch = read(tmp_path / "batch.csv", schema=data.schema)
        assert batch.sequences.values("code").tolist() == [*codes, 1, code]


@pytest.mark.parametrize(("keys", "kind"), [(["2", "10"], pa.int64()), (["1.50", "1E5"], pa.large_string())])
def test_keys_of_a_csv_file_are_whole_numbers_or_text(tmp_path: Path, keys: list[str], kind: pa.DataType):
    pl.DataFrame({"card": keys, "day": [1, 2]}).write_csv(tmp_path / "e.csv")
    data = read(tmp_path / "e.csv", key="card", time="day", numeric=[])
    assert data.keys.type == kind
    assert list(map(str, data.keys.to_pylist())) == keys


def test_a_number_that_is_missing_in_all_of_a_csv_file_is_missing(tmp_path: Path):
    schema = read(
        pl.DataFrame({"card": [1], "day": [1], "paid": [2.0]}), key="card", time="day", numeric=["paid"]
    ).schema
    (tmp_path / "e.csv").write_text("card,day,paid\n1,2,\n")
    assert math.isnan(read(tmp_path / "e.csv", schema=schema).sequences.values("paid").item())


@pytest.mark.parametrize(("frequent", "others"), [("1.5", ["free", "1.50"]), ("a", ["NaN", "b"])])
def test_a_column_that_was_text_is_read_as_text_whatever_its_frequent_values_are(
    tmp_path: Path, frequent: str, others: list[str]
):
    frame = pl.DataFrame({"card": 1, "day": range(7), "code": [frequent] * 5 + others})
    frame.write_csv(tmp_path / "history.csv")
    for fitting in (Fitting(min_count=5), Fitting(min_count=6)):  # a vocabulary of one value, and an empty one
        data = read(tmp_path / "history.csv", key="card", time="day", categorical=["code"], fitting=fitting)
        again = read(tmp_path / "history.csv", schema=data.schema)
        assert again.fingerprint == data.fingerprint
        frame[5:].write_csv(tmp_path / "batch.csv")
        batch = read(tmp_path / "batch.csv", schema=Schema.from_json(data.schema.to_json()))
        assert batch.sequences.values("code").tolist() == data.sequences.values("code").tolist()[5:]


def test_a_file_without_a_value_of_a_column_does_not_make_it_text(tmp_path: Path):
    (tmp_path / "a.csv").write_text("card,day,paid\n1,1,2.5\n1,2,3.5\n")
    (tmp_path / "b.csv").write_text("card,day,paid\n1,3,\n1,4,\n")
    assert read(tmp_path / "*.csv", key="card", time="day").schema.numeric[0].name == "paid"


def test_files_with_many_columns_are_read_as_often_as_files_with_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls: list[str] = []
    scan, columns = pl.scan_csv, pl.DataFrame.columns.fget

    def scanned(*args: Any, **options: Any) -> pl.LazyFrame:
        calls.append("scan")
        return scan(*args, **options)

    def named(frame: pl.DataFrame) -> list[str]:
        calls.append("columns")
        return columns(frame)

    counts = []
    for width in (3, 30):
        names = [f"x{i}" for i in range(width)]
        (tmp_path / "a.csv").write_text(f"card,day,{','.join(names)}\n1,1,{','.join(['007'] * width)}\n")
        (tmp_path / "b.csv").write_text(f"card,day,{','.join(names)}\n1,2{',' * width}\n")
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(pl, "scan_csv", scanned)
            patch.setattr(pl.DataFrame, "columns", property(named))
            types = csv_files.csv_types([tmp_path / "a.csv", tmp_path / "b.csv"], [], "card")
        assert types == {"card": pl.Int64(), "day": pl.Int64(), **dict.fromkeys(names, pl.String())}
        counts.append((calls.count("scan"), calls.count("columns")))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("option", ["numeric", "categorical", "hashed"])
def test_names_of_columns_are_compared_a_few_times_each(option: str, tmp_path: Path):
    compared: list[int] = []

    class Name(str):
        def __eq__(self, other: object) -> bool:
            compared.append(1)
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    counts = []
    for width in (40, 160):
        names = [Name(f"x{i}") for i in range(width)]
        (tmp_path / "e.csv").write_text(f"card,day,{','.join(names)}\n" + f"1,2{',3' * width}\n" * 3)
        compared.clear()
        roles: dict[str, Any] = {"categorical": [], "numeric": [], option: names}
        data = read(tmp_path / "e.csv", key="card", time="day", **roles)
        assert len(Schema.from_json(data.schema.to_json()).fields) == width
        counts.append(len(compared))
    assert counts[1] < 5 * counts[0]
