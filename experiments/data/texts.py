"""Free text in events: what maintainers wrote about each version of a Debian package."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from eventvec.datasets.folders import Frames, Labelled
from eventvec.tables import read
from eventvec.texts import text_column
from experiments.data.folders import outside

URGENT = ("high", "emergency", "critical")
NUMBER = "0"
DATES = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?\s+\S*\d"
RELEASES = (
    *("buzz", "rex", "bo", "hamm", "slink", "potato", "woody", "sarge", "etch", "lenny", "squeeze", "wheezy", "jessie"),
    *("stretch", "buster", "bullseye", "bookworm", "trixie", "forky", "warty", "hoary", "breezy", "dapper", "edgy"),
    *("feisty", "gutsy", "hardy", "intrepid", "jaunty", "karmic", "lucid", "maverick", "natty", "oneiric", "precise"),
    *("quantal", "raring", "saucy", "trusty", "utopic", "vivid", "wily", "xenial", "yakkety", "zesty", "artful"),
    *("bionic", "cosmic", "disco", "eoan", "focal", "groovy", "hirsute", "impish", "jammy", "kinetic", "lunar"),
    *("mantic", "noble", "oracular", "plucky"),
)
"""Code names of the releases of Debian and Ubuntu: each names a year."""


def debian_changelogs() -> Labelled:
    """Return the changelogs of 430 Debian packages, an event per version with its text, and how urgent each was.

    Entities are packages; the only field is `text`, a nested column of UTF-8 bytes, without what `plain_words` takes
    out. Labels have one row per event, not per package: `entry` (a number), `package`, `date`, `urgency`, and `urgent`,
    high or above (454 of 11,334). Use `urgent`: whether the rest is low or medium tells the year (97 % low in 2012, 9 %
    in 2015, for the tools changed their default). Entries of one package belong to one side of a split. Author, version
    and distribution are no fields, for they tell the order.
    Source: the packages' own documentation, each under the licence of its package.

    Raises:
        DataError: the file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> data, labels = debian_changelogs()  # doctest: +SKIP
        >>> len(data), labels["urgent"].sum()  # doctest: +SKIP
        (430, 454)
    """
    events, labels = debian_changelogs_frames()
    data = read(events, key="package", time="date", categorical=(), numeric=())
    columns = {**data.sequences.columns, "text": text_column(events["text"].to_arrow())}
    return replace(data, sequences=replace(data.sequences, columns=columns)), labels


def debian_changelogs_frames() -> Frames:
    """Return the events and labels of `debian_changelogs` as tables, both in order of package and date.

    Raises:
        DataError: the file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> events, labels = debian_changelogs_frames()  # doctest: +SKIP
    """
    path = outside("debian_changelogs/entries.parquet", "the folder usr/share/doc of a Debian system")
    entries = pl.read_parquet(path).sort("package", "date", maintain_order=True).with_row_index("entry")
    urgent = pl.col("urgency").is_in(URGENT).alias("urgent")
    labels = entries.select(pl.col("entry").cast(pl.Int64), "package", "date", "urgency", urgent)
    return entries.select("package", "date", plain_words(pl.col("text")).alias("text")), labels


def plain_words(text: pl.Expr) -> pl.Expr:
    """Return text without what tells when it was written, or how urgent its version was.

    Lines that speak of urgency go, and lines that only name a person in brackets. Addresses of the web and of people,
    and every word with a digit in it (versions, bug numbers, dates, names such as i386 too) become `0`, several in a
    row one; names of releases go, and months and weekdays that belong to a date. White space is made single.

    Args:
        text: of changelog entries.

    Example:
        >>> line = "  [ A. Maintainer ]\\n  * New upstream release 2.1-3 (closes: #728664), for wheezy."
        >>> pl.select(plain_words(pl.lit(line))).item()
        '* New upstream release 0 (closes: 0), for .'
    """
    return (
        text.str.replace_all(r"(?mi)^.*urgen.*$", "")
        .str.replace_all(r"(?m)^\s*\[[^\]]*\]\s*$", "")
        .str.replace_all(r"\S+(?:://|@)\S+", NUMBER)
        .str.replace_all(DATES, NUMBER)
        .str.replace_all(rf"(?i)\b(?:{'|'.join(RELEASES)})\b", "")
        .str.replace_all(r"[\w#.:+~/-]*\d(?:[\w.:+~/-]*\w)?", NUMBER)
        .str.replace_all(r"0(?:[\s,]+0\b)+", NUMBER)
        .str.replace_all(r"\s+", " ")
        .str.strip_chars()
    )
