"""Names that a package shows and imports at their first use, so importing the package itself costs nothing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

IMPORTING = threading.RLock()
LONGEST = 60
"""The seconds after which a thread no longer waits for one that imports."""


def import_at_first_use(package: str, places: Mapping[str, str], modules: Sequence[str] = ()) -> None:
    """Let a package have names that are imported from its modules at their first use, and its modules themselves.

    `dir` of the package lists these names and no other. Type checkers read the imports that stand under `TYPE_CHECKING`
    beside the call; a test compares the two.

    Args:
        package: The name of the package, which calls this function while it is imported.
        places: The names that each module has, separated by spaces, by the module.
        modules: The modules inside the package that are public too. If only one of them has a name that the package
            is asked for, the error says so.

    Example:
        >>> import eventvec
        >>> "fit" in eventvec.__all__, eventvec.fit.__module__
        (True, 'eventvec.training.fitting')
    """
    namespace = vars(sys.modules[package])
    module_of = {name: module for module, names in places.items() for name in names.split()}
    shown = sorted([*module_of, *modules])

    def at_first_use(name: str) -> Any:
        if name in module_of:
            with _alone():
                value = getattr(import_module(module_of[name]), name)
        elif name.startswith("_") or (value := _module(f"{package}.{name}")) is None:
            owners = (
                () if name.startswith("_") else [module for module in modules if hasattr(at_first_use(module), name)]
            )
            advice = f"; it is {package}.{owners[0]}.{name}" if owners else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{advice}")
        namespace[name] = value
        return value

    namespace["__all__"] = shown
    namespace["__getattr__"] = at_first_use
    namespace["__dir__"] = lambda: list(shown)


@contextmanager
def _alone() -> Iterator[None]:
    """Let one thread at a time import: where several import parts of one package, Python can refuse with a deadlock.

    A thread that imports a module by its name does not wait for this, and may need what another thread imports here, so
    that nobody waits for ever.
    """
    held = IMPORTING.acquire(timeout=LONGEST)
    try:
        yield
    finally:
        if held:
            IMPORTING.release()


def _module(name: str) -> Any:
    """Return a module, or None if there is none of the name."""
    try:
        with _alone():
            return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None
