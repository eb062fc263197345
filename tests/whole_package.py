"""Importing this module imports all of eventvec, for a process from which those are forked that run commands."""

from __future__ import annotations

import gc
import importlib
import pkgutil

import eventvec

for module in pkgutil.walk_packages(eventvec.__path__, "eventvec."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)

gc.freeze()  # a collection in a forked process would copy all of its memory
