"""Names that a package shows and imports at their first use, so importing the package itself costs nothing."""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any

IMPORTING, NOTING = threading.RLock(), threading.RLock()
"""What holds one thread alone: while it imports a module, and while it notes what a package shows."""
LONGEST = 60
"""The seconds after which a thread no longer waits for one that imports."""


@contextmanager
def at_first_use(package: str) -> Iterator[None]:
    """Let a package have the names that the block imports, each of which is imported at its first use.

    The block has lines such as ``from shop.shelf import tea as tea``, which type checkers read as they are; none of
    them imports anything when it is executed. A line that imports from the package itself names a module inside it that
    is public too: if only one of these has a name that the package is asked for, the error says so. `dir` of the
    package lists these names and no other. Modules of the package are found by their names whether they are listed or
    not.

    Args:
        package: The name of the package, which has the block in its `__init__.py`.

    Example:
        >>> import eventvec
        >>> "fit" in eventvec.__all__, eventvec.fit.__module__
        (True, 'eventvec.training.fitting')
    """
    namespace, module_of = vars(sys.modules[package]), dict[str, str]()

    def noted(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if globals is not namespace:  # of another module, in another thread
            return imported(name, globals, locals, fromlist, level)
        module_of.update(dict.fromkeys(fromlist, name))
        return SimpleNamespace(**dict.fromkeys(fromlist))

    with NOTING:
        imported, builtins.__import__ = builtins.__import__, noted
        try:
            yield
        finally:
            builtins.__import__ = imported
    for name in module_of:
        del namespace[name]
    modules = [name for name, module in module_of.items() if module == package]
    shown = sorted(module_of)

    def first_use(name: str) -> Any:
        if module_of.get(name, package) != package:
            with _alone():
                value = getattr(import_module(module_of[name]), name)
        elif name.startswith("_") or (value := _module(f"{package}.{name}")) is None:
            owners = () if name.startswith("_") else [module for module in modules if hasattr(first_use(module), name)]
            advice = f"; it is {package}.{owners[0]}.{name}" if owners else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{advice}")
        namespace[name] = value
        return value

    namespace["__all__"] = shown
    namespace["__getattr__"] = first_use
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
