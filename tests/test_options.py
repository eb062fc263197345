"""Dataclasses of options: the signatures, types and tables that follow from them, and the errors for wrong names."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import cases
import eventvec as ev
from eventvec.errors import ConfigError
from eventvec.options import accepts, as_table, descriptions, gather, option_types, those_of, within
from eventvec.tables.read_options import GROUPS, Columns, Cuts, Storage, TableFormat
from eventvec.training import FitOptions
from eventvec.updating.update_options import UpdateOptions


@dataclass(frozen=True)
class Speed:
    """How fast it runs.

    Args:
        steps: The number of steps,
            at least 1.
        factor: The factor of each step.

    Raises:
        ConfigError: Never.
    """

    steps: int = 3
    factor: float | None = None


@dataclass(frozen=True)
class Colour:
    """How it looks.

    Args:
        name: The name of the colour.
        speed: A nested table.
        parts: Some names.
    """

    name: str
    speed: Speed = Speed()
    parts: tuple[str, ...] = ("a",)


@accepts(Speed, Colour)
def paint(place: str, *, twice: bool = False, **options: Any) -> tuple[Speed, Colour]:
    return gather(options, Speed, Colour), gather(options, Colour, Speed)


def test_the_signature_shows_the_fields_after_the_other_arguments() -> None:
    parameters = inspect.signature(paint).parameters
    assert list(parameters) == ["place", "twice", "steps", "factor", "name", "speed", "parts"]
    assert {parameters[name].kind for name in ("steps", "parts")} == {inspect.Parameter.KEYWORD_ONLY}
    assert (parameters["steps"].default, parameters["steps"].annotation) == (3, int)
    assert (parameters["factor"].default, parameters["factor"].annotation) == (None, float | None)
    assert parameters["name"].default is inspect.Parameter.empty


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (ev.read, GROUPS),
        (ev.features, (Columns, Cuts, TableFormat, Storage)),
        (ev.fit, (FitOptions,)),
        (ev.fine_tune, (FitOptions,)),
        (ev.update, (UpdateOptions, TableFormat)),
        (ev.predict, (Cuts, TableFormat)),
        (ev.surprise, (Cuts, TableFormat)),
        (ev.Model.read, (Cuts, TableFormat)),
        (ev.Model.embed, (Cuts, TableFormat)),
    ],
)
def test_public_functions_show_every_option_with_its_default(
    function: Callable[..., Any], kinds: tuple[type[Any], ...]
) -> None:
    parameters = inspect.signature(function).parameters
    for kind in kinds:
        for name, (hint, default) in option_types(kind).items():
            assert parameters[name].default == default
            assert parameters[name].annotation == hint
    assert inspect.Parameter.VAR_KEYWORD not in {each.kind for each in parameters.values()}


def test_options_are_gathered_into_their_dataclass() -> None:
    assert paint("wall", steps=5, name="red", parts=("b",)) == (Speed(5), Colour("red", parts=("b",)))


def test_options_are_divided_by_the_dataclass_or_function_that_takes_them() -> None:
    def walk(far: int, slow: bool = False) -> None: ...

    options = {"epochs": 3, "slow": True, "until": "2024", "other": 1}
    assert those_of(options, Cuts, walk) == {"until": "2024", "slow": True}
    assert option_types(walk) == {"far": (int, inspect.Parameter.empty), "slow": (bool, False)}


def test_an_unknown_option_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(ConfigError) as error:
        paint("wall", name="red", step=5)
    assert str(error.value) == (
        "there is no option 'step'; did you mean 'steps'? accepted: factor, name, parts, speed, steps"
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ev.fit(None, method="ocp", epochs="3"), "^epochs must be a whole number or None, got '3'$"),
        (lambda: ev.fit(None, method="ocp", epochs=1.5), "^epochs must be a whole number or None, got 1.5$"),
        (lambda: ev.fit(None, method="ocp", seed=None), "^seed must be a whole number, got None$"),
        (lambda: ev.fit(None, method="ocp", batch_size=True), "^batch_size must be a whole number, got True$"),
        (lambda: ev.fit(None, method="ocp", time_budget="2m"), "^time_budget must be a number or None, got '2m'$"),
        (lambda: ev.read("absent.parquet", holdout="0.2"), "^holdout must be a number or None, got '0.2'$"),
        (
            lambda: ev.fit(None, method="ocp", epochs=10**5000),
            "^epochs must be a number of at most 64 bits, got one of 16610",
        ),
        (lambda: ev.fit(None, method="ocp", seed=-1), r"^seed must be in \[0, 2\^62\), got -1$"),
        (lambda: ev.read("absent.parquet", holdout_seed=-1), r"^holdout_seed must be in \[0, 2\^62\), got -1$"),
        (lambda: ev.score_features({}, [], seed=2**31), r"^seed must be in \[0, 2\^31\), got 2147483648$"),
        (
            lambda: ev.score_features({}, [], seed=2**70),
            "^seed must be a number of at most 64 bits, got one of 71 bits$",
        ),
        (lambda: ev.read("absent.parquet", meds="no"), "^meds must be true or false, got 'no'$"),
    ],
)
def test_options_of_another_type_are_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()


def test_numbers_of_numpy_and_whole_numbers_for_numbers_are_accepted() -> None:
    assert gather({"steps": np.int64(3), "factor": np.float32(0.5)}, Speed) == Speed(3, 0.5)
    assert gather({"factor": 2}, Speed) == Speed(factor=2)


def test_a_field_of_two_dataclasses_is_listed_once() -> None:
    with pytest.raises(ConfigError, match=r"accepted: factor, steps$"):
        gather({"colour": 1}, Speed, Speed)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ev.read("absent.parquet", kee="id"),
        lambda: ev.fit(None, method=cases.CASES["ocp"]()[0], epoch=1),
        lambda: ev.update(None, None, "state", keeps=1),
    ],
)
def test_public_functions_refuse_unknown_options_before_they_read_anything(call: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError, match=r"there is no option '.*'; did you mean"):
        call()


def test_descriptions_follow_from_the_docstring() -> None:
    assert descriptions(Speed) == {
        "steps": "The number of steps, at least 1.",
        "factor": "The factor of each step.",
    }


@pytest.mark.parametrize("kind", [FitOptions, UpdateOptions, *GROUPS])
def test_each_option_is_described(kind: type[Any]) -> None:
    assert list(descriptions(kind)) == [field.name for field in dataclasses.fields(kind)]


def test_a_table_holds_plain_values_and_leaves_out_what_is_missing() -> None:
    table = as_table(Speed(), Colour("red", Speed(2, 0.5)))
    assert table == {"steps": 3, "name": "red", "speed": {"steps": 2, "factor": 0.5}, "parts": ["a"]}


@pytest.mark.parametrize(
    ("ends", "inside", "outside"),
    [
        ("[]", (0, 0.5, 1), (-0.1, 1.1)),
        ("[)", (0, 0.5), (-0.1, 1)),
        ("(]", (0.5, 1), (0, 1.1)),
        ("()", (0.5,), (0, 1, float("nan"), float("inf"))),
    ],
)
def test_a_number_outside_an_interval_is_refused(ends: str, inside: tuple[float], outside: tuple[float]) -> None:
    for value in inside:
        within("share", value, 0, 1, ends)
    for value in outside:
        with pytest.raises(ConfigError, match=re.escape(f"share must be in {ends[0]}0, 1{ends[1]}, got {value}")):
            within("share", value, 0, 1, ends)
