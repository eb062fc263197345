"""CSV files that are damaged, of another format or ambiguous are refused; those in accepted forms are read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from eventvec.errors import DataError
from eventvec.tables import read
from eventvec.tables.sources import open_source

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
