"""The errors that eventvec raises when a user can correct the cause.

::

    EventvecError
    ├── DataError         a table, a column or a label cannot be used
    ├── ConfigError       an option, a name or a combination of them is not accepted
    └── CheckpointError   a run folder or an embeddings file cannot be used

Every message says what is wrong, what was found and what is accepted. No message contains a value of the key column.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class EventvecError(Exception):
    """Base class of the errors that eventvec raises."""


class DataError(EventvecError):
    """A table, a column or a label cannot be used."""


class ConfigError(EventvecError):
    """An option, a name or a combination of them is not accepted."""


class CheckpointError(EventvecError):
    """A run folder or an embeddings file is absent, damaged or from another version."""


def nearest(name: str, accepted: Iterable[str]) -> str:
    """Return the end of a message: the accepted names that are nearest to a wrong one, and the accepted names.

    Example:
        >>> nearest("colse", ["coles", "ocp"])
        "did you mean 'coles'? accepted: coles, ocp"
    """
    names = sorted(accepted)
    close = difflib.get_close_matches(name, names, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    shown = ", ".join(names[:20]) + (f", … ({len(names)} in all)" if len(names) > 20 else "")
    return f"{hint}accepted: {shown or 'none'}"


def need(module: str, extra: str) -> ModuleType:
    """Return an optional module.

    Args:
        module: Dotted name of the module.
        extra: The extra of eventvec that installs it, for the message.

    Raises:
        ConfigError: If the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"needs {module.split('.')[0]}: pip install 'eventvec[{extra}]'") from error
