"""Results as files: what a command printed lies beside its page, and the tables of the page are rendered from it.

`python -m experiments.NAME TABLE --store [FILE]` writes `experiments/NAME/results/FILE.json`, by default named as the
table, with the command, the commit, the date, the machine and the rows. With `--small`, it adds the rows of the small
mode to that file, which `make slow` runs again. A page says where a table stands:

    <!-- table FILE -->
    <!-- end -->

and `python -m experiments.stored_results` writes the tables between these lines. A table has the rows of the file of
its name, or those that the function of its name in `TABLES` of `experiments/NAME/page.py` returns, which reads one or
more files. `PICTURES` has functions that draw a file of the page in SVG. Tests compare pages with files, and the rows
of `CELLS` of the same module, computed anew, with the stored.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]
Results = Mapping[str, Sequence[Row]]
Table = Callable[[Results], list[Row]]

HERE = Path(__file__).parent
DIGITS = 8
"""The digits of a number that are stored."""
BLOCK = re.compile(r"<!-- table (\S+) -->\n.*?<!-- end -->", re.DOTALL)


@dataclass(frozen=True)
class Stored:
    """What a command printed.

    Args:
        command: The command.
        about: The commit, the date, the machine and the like. A `note` says how rows came here that the command did
            not store, such as those of a run before there were stored results.
        rows: The rows.
        small: The rows of the small mode; None if they were not stored.
    """

    command: str
    about: Row
    rows: Sequence[Row]
    small: Sequence[Row] | None = None


class Page(NamedTuple):
    """What a module `page` says.

    Args:
        tables: Functions that return the rows of a table of the page from the stored results.
        cells: Functions that compute some rows of a stored file anew.
        pictures: Functions that return a picture in SVG from the stored results, by the names of the files.
    """

    tables: Mapping[str, Table] = {}
    cells: Mapping[str, Callable[[], list[Row]]] = {}
    pictures: Mapping[str, Callable[[Results], str]] = {}


def store(name: str, file: str, command: str, about: Row, rows: Sequence[Row], small: bool) -> Path:
    """Write what a command printed, or the rows of its small mode beside it, and return the path.

    Args:
        name: The folder in `experiments/`.
        file: The name of the file, without its suffix.
        command: The command.
        about: The commit, the date, the machine and the like.
        rows: The rows.
        small: Whether these are the rows of the small mode.
    """
    path = HERE / name / "results" / f"{file}.json"
    path.parent.mkdir(exist_ok=True)
    told = json.loads(path.read_text()) if path.exists() else {}
    exact = json.loads(json.dumps(rows, default=str), parse_float=_shortened)
    about = {key: value for key, value in about.items() if key not in ("small", "keep")}
    told |= {"small": exact} if small else {"command": command, "about": about, "rows": exact}
    lines = [f"{json.dumps(key)}: {_listed(value)}" for key, value in told.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return path


def _shortened(number: str) -> float:
    return float(f"{float(number):.{DIGITS}g}")


def _listed(value: Any) -> str:
    """Return JSON with one row in each line."""
    if not isinstance(value, list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in value) + "\n]"


def stored(name: str) -> dict[str, Stored]:
    """Return what is stored of an experiment, by the names of the files."""
    paths = sorted((HERE / name / "results").glob("*.json"))
    return {path.stem: Stored(**json.loads(path.read_text())) for path in paths}


def page_of(name: str) -> Page:
    """Return what the module `page` of an experiment says, if there is one."""
    if not (HERE / name / "page.py").exists():
        return Page()
    module = importlib.import_module(f"experiments.{name}.page")
    return Page(*(getattr(module, title.upper(), {}) for title in Page._fields))


def rendered(name: str) -> str:
    """Return the page of an experiment, with its tables as the stored results have them."""
    results, tables = stored(name), page_of(name).tables

    class Read(dict[str, Sequence[Row]]):
        """The stored rows, which notes what is read."""

        def __missing__(self, file: str) -> Sequence[Row]:
            self[file] = results[file].rows
            return self[file]

    def block(match: re.Match[str]) -> str:
        title, read = match[1], Read()
        rows = tables[title](read) if title in tables else read[title]
        about = [_about(results[file]) for file in read]
        return "\n".join([f"<!-- table {title} -->", *markdown(rows), "", *dict.fromkeys(about), "<!-- end -->"])

    return BLOCK.sub(block, (HERE / name / "README.md").read_text())


def _about(result: Stored) -> str:
    about = result.about
    parts = [about.get("machine"), about.get("date"), about.get("note")]
    return f"`{result.command}`, commit {', '.join(filter(None, [about['commit'], *parts]))}."


def markdown(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a table in Markdown."""
    titles = list(rows[0])
    if other := next((row for row in rows if list(row) != titles), None):
        raise ValueError(f"a row of the table has the columns {list(other)}, the first {titles}")
    cells = [
        titles,
        ["---"] * len(titles),
        *([text(value).replace("|", "\\|") for value in row.values()] for row in rows),
    ]
    return ["| " + " | ".join(each) + " |" for each in cells]


def text(value: Any, digits: int = 3, sign: bool = False) -> str:
    """Return a value as pages have it: numbers with a point and digits, without the zero before it.

    Example:
        >>> text(0.0724, 2), text(-0.5, sign=True), text(0.25, sign=True), text(12_000), text("yes"), text(None)
        ('.07', '−.500', '+.250', '12,000', 'yes', '')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    shown = f"{abs(value):,}" if isinstance(value, int) else f"{abs(value):,.{digits}f}"
    shown = shown[1:] if shown.startswith("0.") else shown
    return ("−" if value < 0 and shown.strip(".0") else "+" if sign else "") + shown


def differences(rows: Sequence[Row], others: Sequence[Row], tolerance: float) -> list[str]:
    """Return a line for each value of some rows that differs from that of the other row with the same texts and counts.

    Numbers with a fraction may differ by a tolerance. Seconds are not compared.

    Args:
        rows: Rows that were computed anew.
        others: Stored rows, among which there must be one for each.
        tolerance: The largest difference between numbers, and between one and the other as a share of it.
    """

    def key(row: Row) -> tuple[tuple[str, str], ...]:
        return tuple(
            (title, str(value))
            for title, value in row.items()
            if not isinstance(value, float) and "second" not in title.lower()
        )

    lines, by_key = list[str](), {key(row): row for row in others}
    for row in json.loads(json.dumps(rows, default=str)):
        if (other := by_key.get(key(row))) is None:
            lines.append(f"no stored row has {dict(key(row))}")
            continue
        lines += [
            f"{dict(key(row))}: {title} is {value}, stored {other.get(title)}"
            for title, value in row.items()
            if isinstance(value, float) and "second" not in title.lower()
            if not _close(value, other.get(title), tolerance)
        ]
    return lines


def _close(value: float, other: Any, tolerance: float) -> bool:
    if not isinstance(other, int | float):
        return False
    both_missing = math.isnan(value) and math.isnan(other)
    return both_missing or math.isclose(value, other, rel_tol=tolerance, abs_tol=tolerance)


def pictures(name: str) -> dict[str, str]:
    """Return the pictures of a page in SVG, by the names of their files."""
    rows = {file: result.rows for file, result in stored(name).items()}
    return {file: draw(rows) for file, draw in page_of(name).pictures.items()}


def names() -> list[str]:
    """Return the experiments with stored results."""
    return sorted(path.parent.name for path in HERE.glob("*/results"))


def main() -> None:
    """Write the tables and pictures of the pages of the experiments that are named, or of all."""
    for name in sys.argv[1:] or names():
        (HERE / name / "README.md").write_text(rendered(name))
        for file, picture in pictures(name).items():
            (HERE / name / file).write_text(picture)


if __name__ == "__main__":
    main()
