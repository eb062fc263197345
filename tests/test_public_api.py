"""The public names: `__all__` is exact, each name has an example, and no name means two things."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types
from collections import Counter
from typing import Any

import pandas as pd
import pytest

import eventvec
import eventvec as ev
from eventvec.options import option_types

MODULES = ("datasets", "encoders", "losses", "methods", "views")
"""The modules that `eventvec` shows beside its classes and functions."""

INFOS = list(pkgutil.walk_packages(eventvec.__path__, "eventvec."))
NAMES = [info.name for info in INFOS]
PACKAGES = ["eventvec", *(info.name for info in INFOS if info.ispkg)]
PLAIN = [name for name in eventvec.__all__ if name not in MODULES]


def last(name: str) -> str:
    return name.rpartition(".")[2]


def visible() -> list[str]:
    """Return the names without an underscore in the namespace that are not submodules, and the five modules."""
    names = {*vars(eventvec), *eventvec.__all__}
    values = {name: getattr(eventvec, name) for name in names if not name.startswith("_")}
    return [name for name, value in values.items() if name in MODULES or not isinstance(value, types.ModuleType)]


def test_all_is_exactly_the_public_names() -> None:
    assert sorted(eventvec.__all__) == sorted(visible())
    assert len(set(eventvec.__all__)) == len(eventvec.__all__)
    assert all(isinstance(getattr(eventvec, name), types.ModuleType) for name in MODULES)
    assert dir(eventvec) == sorted(eventvec.__all__)  # also after other modules of the package were imported


@pytest.mark.parametrize("package", PACKAGES)
def test_all_names_of_a_folder_exist_once(package: str) -> None:
    module = importlib.import_module(package)
    names = getattr(module, "__all__", [])
    assert len(set(names)) == len(names)
    assert all(hasattr(module, name) for name in names)


@pytest.mark.parametrize("name", PLAIN)
def test_each_public_name_has_an_example(name: str) -> None:
    value = getattr(eventvec, name)
    text = inspect.getdoc(value) or ""
    assert text.split("\n")[0].strip(), f"{name} has no docstring"
    if not (isinstance(value, type) and issubclass(value, Exception)):
        assert ">>>" in text, f"{name} has no example in its docstring"


@pytest.mark.parametrize("module", MODULES)
def test_each_public_class_and_function_of_a_module_has_an_example(module: str) -> None:
    namespace = getattr(eventvec, module)
    values = {name: getattr(namespace, name) for name in namespace.__all__}
    without = [
        name
        for name, value in values.items()
        if (inspect.isclass(value) and not getattr(value, "_is_protocol", False)) or inspect.isfunction(value)
        if ">>>" not in (inspect.getdoc(value) or "")
    ]
    assert without == []


def test_no_public_name_equals_that_of_a_module() -> None:
    modules = {last(name) for name in NAMES}
    clashes = [
        f"{package}.{name}"
        for package in PACKAGES
        for name in getattr(importlib.import_module(package), "__all__", [])
        if name in modules and not isinstance(getattr(importlib.import_module(package), name), types.ModuleType)
    ]
    assert clashes == []


def test_no_two_modules_share_a_name() -> None:
    counts = Counter(last(name) for name in NAMES)
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("name", PLAIN)
def test_signatures_name_every_option(name: str) -> None:
    """A function that takes options of dataclasses shows them, so that help and completion do."""
    value = getattr(eventvec, name)
    if inspect.isfunction(value):
        kinds = {parameter.kind for parameter in inspect.signature(value).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds


def test_fit_shows_the_options_of_fit_options() -> None:
    parameters = inspect.signature(eventvec.fit).parameters
    shown = {name: (parameter.annotation, parameter.default) for name, parameter in parameters.items()}
    assert option_types(eventvec.FitOptions).items() <= shown.items()
    assert "config" not in parameters


def test_a_table_or_a_path_in_the_place_of_an_object_is_refused_with_the_call_to_make() -> None:
    table = {"id": [1, 1], "t": [1, 2]}
    encoder = eventvec.encoders.GRU(eventvec.encoders.EventEncoder(eventvec.Schema("id", "t", "integer")), dim=2)
    for call in (
        lambda: eventvec.fit(table, method="coles"),
        lambda: eventvec.fit(table, method=eventvec.methods.ocp(encoder)),
        lambda: eventvec.embed(encoder, table),
    ):
        with pytest.raises(eventvec.ConfigError, match=r"must be a Dataset, got dict; .*ev.read"):
            call()
    for call in (lambda: eventvec.predict("run", table), lambda: eventvec.fine_tune("run", table, table, "churn")):
        with pytest.raises(eventvec.ConfigError, match=r"must be a Model, got str; .*ev.load"):
            call()


def test_what_stands_in_the_wrong_place_is_named() -> None:
    table = pd.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
    data = ev.read(table, key="id", time="t", numeric=["v"])
    run = ev.fit(data, method="ocp", epochs=1)
    method: Any = ev.methods.CoLES
    for call, sentence in (
        (lambda: ev.fit(table, method="coles"), "the data must be a Dataset, got DataFrame; read the events first"),
        (lambda: ev.fit(data, method=method), r"got the class CoLES; for example fit\("),
        (
            lambda: ev.fit(data, method=run),
            "method must be a Method, a name such as 'coles', or a config dict, got Model",
        ),
        (
            lambda: ev.embed(run, table),
            r"the encoder must be a module .* got Model; .*run\.embed\(events\) takes",
        ),
        (lambda: ev.encode(run.encoder, data), "x must be Sequences, got Dataset; take data.sequences"),
        (lambda: ev.until(table, 3), "the data must be a Dataset, got DataFrame"),
        (lambda: ev.encoders.EventEncoder(data), "the schema must be a Schema, got Dataset"),
        (lambda: ev.encoders.GRU(data.schema), "events must be an event encoder"),
        (lambda: ev.methods.Supervised(run, data.schema, "v"), "the encoder must be a module"),
    ):
        with pytest.raises(ev.ConfigError, match=sentence):
            call()
    with pytest.raises(AttributeError, match=r"no attribute 'RTD'; it is eventvec\.methods\.RTD"):
        _ = ev.RTD
    with pytest.raises(AttributeError, match=r"has no attribute 'absent'$"):
        _ = ev.absent
