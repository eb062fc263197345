"""Free text in events: the changelogs of Debian packages, with one entry per version."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from eventvec.dataset import text_column
from eventvec.datasets.bundled import Frames, Labelled
from eventvec.tables import read
from experiments.data.data_folder import data_file

URGENT = ("high", "emergency", "critical")
PLACEHOLDER = "0"
DATES = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?\s+\S*\d"
RELEASES = (
    *("buzz", "rex", "bo", "hamm", "slink", "potato", "woody", "sarge", "etch", "lenny", "squeeze", "wheezy", "jessie"),
    *("stretch", "buster", "bullseye", "bookworm", "trixie", "forky", "warty", "hoary", "breezy", "dapper", "edgy"),
    *("feisty", "gutsy", "hardy", "intrepid", "jaunty", "karmic", "lucid", "maverick", "natty", "oneiric", "precise"),
    *("quantal", "raring", "saucy", "trusty", "utopic", "vivid", "wily", "xenial", "yakkety", "zesty", "artful"),
    *("bionic", "cosmic", "disco", "eoan", "focal", "groovy", "hirsute", "impish", "jammy", "kinetic", "lunar"),
    *("mantic", "noble", "oracular", "plucky"),
)
"""Code names of the releases of Debian and Ubuntu, each of which reveals a year."""


def debian_changelogs() -> Labelled:
    """Return the changelogs of 430 Debian packages, one event per version with its text, and the urgency of each.

    Entities are packages. The only field is `text`, a nested column of UTF-8 bytes, cleaned by `plain_words`. Labels
    have one row per event, not per package: `entry` (a number), `package`, `date`, `urgency`, and `urgent`, true for
    high or above (454 of 11,334). Predict `urgent`: low against medium reveals the year (97 % low in 2012, 9 % in 2015,
    because the tools changed their default). Entries of one package belong on one side of a split. Author, version and
    distribution are left out, because they reveal the order.
    Source: the documentation of the packages, each under the licence of its package.

    Raises:
        DataError: If the file is not in the folder that EVENTVEC_DATA names.

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
    """Return the events and labels of `debian_changelogs` as tables, both sorted by package and date.

    Raises:
        DataError: If the file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> events, labels = debian_changelogs_frames()  # doctest: +SKIP
    """
    path = data_file("debian_changelogs/entries.parquet", "the folder usr/share/doc of a Debian system")
    entries = pl.read_parquet(path).sort("package", "date", maintain_order=True).with_row_index("entry")
    urgent = pl.col("urgency").is_in(URGENT).alias("urgent")
    labels = entries.select(pl.col("entry").cast(pl.Int64), "package", "date", "urgency", urgent)
    return entries.select("package", "date", plain_words(pl.col("text")).alias("text")), labels


def plain_words(text: pl.Expr) -> pl.Expr:
    """Return text without anything that reveals its date or the urgency of its version.

    Lines that mention urgency and lines with only a name in brackets are removed, and so are names of releases, and
    months and weekdays that belong to a date. Web and mail addresses and all words with a digit (versions, bug numbers,
    dates, also names such as i386) become `0`, several in a row a single one. White space is collapsed.

    Args:
        text: changelog entries.

    Example:
        >>> line = "  [ A. Maintainer ]\\n  * New upstream release 2.1-3 (closes: #728664), for wheezy."
        >>> pl.select(plain_words(pl.lit(line))).item()
        '* New upstream release 0 (closes: 0), for .'
    """
    return (
        text.str.replace_all(r"(?mi)^.*urgen.*$", "")
        .str.replace_all(r"(?m)^\s*\[[^\]]*\]\s*$", "")
        .str.replace_all(r"\S+(?:://|@)\S+", PLACEHOLDER)
        .str.replace_all(DATES, PLACEHOLDER)
        .str.replace_all(rf"(?i)\b(?:{'|'.join(RELEASES)})\b", "")
        .str.replace_all(r"[\w#.:+~/-]*\d(?:[\w.:+~/-]*\w)?", PLACEHOLDER)
        .str.replace_all(r"0(?:[\s,]+0\b)+", PLACEHOLDER)
        .str.replace_all(r"\s+", " ")
        .str.strip_chars()
    )
