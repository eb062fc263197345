"""The errors that eventvec raises when a user can correct the cause.

::

    EventvecError
    ├── DataError                 a table, a column or a label cannot be used
    │   └── UnknownEntityError    a store does not have an entity
    ├── ConfigError               an option, a name or a combination of them is not accepted
    │   └── AbsentOutputError     a model predicts no label, or has no vectors
    └── CheckpointError           a model folder or an embeddings file cannot be used

`EventvecWarning` is the warning about a result that is probably not what a user meant.

Every message says what is wrong, what was found and what is accepted. No message contains a value of the key column, a
password in an address, or a character that a terminal would obey.
"""

from __future__ import annotations

import difflib
import heapq
import importlib
import re
import sys
import warnings
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING

from eventvec.credentials import without_secrets

if TYPE_CHECKING:
    from pydantic import ValidationError

LENGTH = 40
"""The largest number of characters of a name or value in a message."""
NAMES = 20
"""The largest number of names that a message lists."""
COMPARED = 100
"""The largest number of names that are compared with a wrong one, because a comparison is slow."""
DATA = re.compile(r"\s*[-+]?\.?\d|[\da-f]{8}-?([\da-f]{4}-?){3}[\da-f]{12}$", re.IGNORECASE)
"""What a name of a column begins with if the name looks like data: a number, a date or a UUID."""


class EventvecError(Exception):
    """Base class of the errors that eventvec raises; its text is one line, without control characters or passwords."""

    def __init__(self, *texts: object) -> None:
        super().__init__(*(without_secrets(text) if isinstance(text, str) else text for text in texts))

    def __str__(self) -> str:
        return printable(super().__str__())


class DataError(EventvecError):
    """A table, a column or a label cannot be used."""


class UnknownEntityError(DataError):
    """A store does not have an entity."""


class ConfigError(EventvecError):
    """An option, a name or a combination of them is not accepted."""


class AbsentOutputError(ConfigError):
    """A model predicts no label, or has no vectors."""


class CheckpointError(EventvecError):
    """A model folder or an embeddings file is absent, damaged or from another version."""


class EventvecWarning(UserWarning):
    """A result is probably not what the user meant, such as the predictions of a model that reads other data."""


def warn(sentence: str) -> None:
    """Warn, as if the line outside eventvec that called it had done so."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).split(".")[0] == "eventvec":
        frame, level = frame.f_back, level + 1
    warnings.warn(printable(without_secrets(sentence)), EventvecWarning, stacklevel=level)


OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\ufeff\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line ends, marks of directions, spaces without width, and halves of characters."""


def printable(text: str) -> str:
    r"""Return a text with escapes in place of characters that a terminal would obey: line ends, colours, directions.

    Example:
        >>> printable("a\n\x1b[31mb")
        'a\\n\\x1b[31mb'
    """
    return text if text.isprintable() else OBEYED.sub(lambda letter: ascii(letter[0])[1:-1], text)


def shown(value: object) -> str:
    """Return a name or value for a message, in quotes if it is text, and shortened."""
    if isinstance(value, str):
        return repr(_short(value))
    if isinstance(value, int) and abs(value) >= 10**LENGTH:
        return f"a whole number of {value.bit_length():,} bits"
    return _short(repr(value))


def listed(names: Iterable[str]) -> str:
    """Return names for a message: the first of them, shortened, and the number of all."""
    every = list(names)
    more = f", … ({len(every):,} in all)" if len(every) > NAMES else ""
    return ", ".join(map(_short, every[:NAMES])) + more or "none"


def nearest(name: object, accepted: Iterable[str]) -> str:
    """Return the end of a message: the accepted names that are nearest to a wrong one, and the accepted names."""
    wrong, names = _short(str(name)), sorted(accepted)
    candidates = [_short(other) for other in names]
    if len(candidates) > COMPARED:
        pairs = _pairs(wrong)
        candidates = heapq.nlargest(COMPARED, candidates, key=lambda other: len(pairs & _pairs(other)))
    close = difflib.get_close_matches(wrong, candidates, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    return f"{hint}accepted: {listed(names)}"


def no_column(name: str, columns: Iterable[str], header: str = "the header", table: str | None = None) -> str:
    """Return a message about a column that is absent, with the columns that there are, unless their names are data.

    A table without a line of column names has its first row of data in place of them, and with it a key.

    Args:
        name: The absent column.
        columns: The columns that there are.
        header: Where the names of the columns are, for the message.
        table: The name of the table, for the message.
    """
    names = list(columns)
    remedy = looks_like_data(names, header) or nearest(name, names)
    return f"{f'{table} has' if table else 'there is'} no column {shown(name)}; {remedy}"


def looks_like_data(names: Iterable[str], header: str) -> str | None:
    """Return a sentence about a header of which a name is a number, a date or a UUID, or begins with one; else None.

    Args:
        names: The names of the columns.
        header: Where they are, for the sentence.

    Example:
        >>> looks_like_data(["card", "2020-01-31"], "the header")
        'the header looks like data, not like column names; give the table a line of column names, none of which ...'
        >>> looks_like_data(["card", "day"], "the header")
    """
    if not any(DATA.match(name) for name in names):
        return None
    return (
        f"{header} looks like data, not like column names; give the table a line of column names, none of which begins "
        "with a digit"
    )


def misfit(error: ValidationError) -> str:
    """Return what is wrong with JSON that does not fit a model of pydantic: the first fault, after its place.

    Example:
        >>> from pydantic import TypeAdapter, ValidationError
        >>> try:
        ...     TypeAdapter(dict[str, int]).validate_json('{"steps": "x"}')
        ... except ValidationError as error:
        ...     misfit(error)
        'steps: Input should be a valid integer, unable to parse string as an integer'
    """
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"


def refuse_masked(values: object, name: str) -> None:
    """Refuse a masked array of numpy with a masked value, which would be read as if it were not masked.

    Example:
        >>> import numpy as np
        >>> refuse_masked(np.ma.masked_equal([1, -9, 3], -9), "weights")
        Traceback (most recent call last):
        eventvec.errors.DataError: weights must have no masked values, got 1; fill them, or leave their rows out
    """
    import numpy as np

    if isinstance(values, np.ma.MaskedArray) and (count := int(np.ma.getmaskarray(values).sum())):
        raise DataError(f"{name} must have no masked values, got {count:,}; fill them, or leave their rows out")


def reason(error: Exception) -> str:
    """Return why a file cannot be used: the words of the system, without its path, or those of another error."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def need(module: str, extra: str) -> ModuleType:
    """Return an optional module.

    Args:
        module: Dotted name of the module.
        extra: The extra of eventvec that installs it, for the message.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"needs {module.split('.')[0]}: pip install 'eventvec[{extra}]'") from error


def _short(text: str) -> str:
    return text if len(text) <= LENGTH else f"{text[:LENGTH]}…"


def _pairs(name: str) -> set[str]:
    """Return the pairs of adjacent characters of a name."""
    return {name[place : place + 2] for place in range(len(name) - 1)}
