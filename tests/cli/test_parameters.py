"""Options of commands from dataclasses: names, types, choices, defaults and help; the conversion of texts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import click
import pytest
import typer
from typer.testing import CliRunner

import eventvec as ev
from eventvec.auditing.audit_options import AuditOptions
from eventvec.blocks.untrained import BLOCKS
from eventvec.cli import app
from eventvec.cli.parameters import numbers, seconds, split_names, takes
from eventvec.comparing.compare_options import CompareOptions
from eventvec.errors import ConfigError
from eventvec.evaluation import EvaluationOptions
from eventvec.options import descriptions
from eventvec.predicting.decision_options import DecisionOptions
from eventvec.tables.read_options import Columns, Cuts, HoldOut, StaticColumns, TableFormat
from eventvec.training import FitOptions
from eventvec.tuning.tune_options import TuneOptions
from eventvec.updating.update_options import UpdateOptions


@dataclass(frozen=True)
class Speed:
    """How fast it runs.

    Args:
        max_steps: The largest number of steps,
            in thousands. More is slower.
        rate: The rate. It is in (0, 1].
        way: The direction.
        columns: The columns that are read
        shares: The shares of the steps.
        sides: The sides that are visited.
        time_budget: The longest run.
        dry: Whether nothing is written.
        limits: The limits of each column.
        until: A time, as text or as a number.
    """

    max_steps: int = 3
    rate: float | None = None
    way: Literal["up", "down"] = "up"
    columns: Sequence[str] | None = None
    shares: Sequence[float] = (1.0, 0.25)
    sides: Sequence[Literal["left", "right"]] = ()
    time_budget: float | None = None
    dry: bool = False
    limits: Mapping[str, int] | None = None
    until: str | int | None = None


def options_of(function: Any) -> dict[str, click.Option]:
    """Return the options of a command, by their names on the command line."""
    command = typer.Typer(add_completion=False)
    command.command()(function)
    built = typer.main.get_command(command)
    return {name: option for option in built.params for name in option.opts}


@takes(Speed)
def run(name: str = "a", **options: Any) -> None:
    """Run."""
    typer.echo(repr(options))


def given(*arguments: str) -> str:
    """Return the options that the function gets."""
    command = typer.Typer(add_completion=False)
    command.command()(run)
    result = CliRunner().invoke(command, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def test_names_and_types_follow_from_the_fields() -> None:
    types = {name: parameter.annotation for name, parameter in inspect.signature(run).parameters.items()}
    plain = {name: set(get_args(get_args(hint)[0])) - {type(None)} for name, hint in types.items() if name != "name"}
    assert plain == {
        "max_steps": {int}, "rate": {float}, "way": {str}, "columns": {str}, "shares": {str}, "sides": {str},
        "time_budget": {str}, "dry": set(), "until": {str},
    }  # fmt: skip
    assert get_args(types["dry"])[0] is bool
    names = {"--max-steps", "--rate", "--way", "--columns", "--shares", "--sides", "--time-budget", "--dry", "--until"}
    assert set(options_of(run)) - {"--name"} == names  # a mapping cannot be written on the command line
    assert (run.__name__, run.__doc__) == ("run", "Run.")


def test_help_is_the_first_sentence_of_the_docstring_with_choices_and_the_default() -> None:
    texts = {name: option.help for name, option in options_of(run).items()}
    assert texts == {
        "--name": None,
        "--max-steps": "The largest number of steps, in thousands. Default: 3.",
        "--rate": "The rate.",
        "--way": "The direction. One of: up, down. Default: up.",
        "--columns": "The columns that are read. Separated by commas, like a,b,c.",
        "--shares": "The shares of the steps. Separated by commas, like 1,0.25. Default: 1,0.25.",
        "--sides": "The sides that are visited. Separated by commas, like left,right.",
        "--time-budget": "The longest run. For example 120s, 10m or 2h.",
        "--dry": "Whether nothing is written.",
        "--until": "A time, as text or as a number.",
    }


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((), {}),
        (("--max-steps", "5"), {"max_steps": 5}),
        (("--rate", "0.5", "--way", "down"), {"rate": 0.5, "way": "down"}),
        (("--columns", "a, b"), {"columns": ["a", "b"]}),
        (("--shares", "1,0.5"), {"shares": [1.0, 0.5]}),
        (("--sides", "right"), {"sides": ["right"]}),
        (("--time-budget", "2m"), {"time_budget": 120.0}),
        (("--dry",), {"dry": True}),
        (("--until", "5"), {"until": "5"}),
        (("--max-steps", "0"), {"max_steps": 0}),
    ],
)
def test_the_function_gets_the_options_that_were_given(arguments: tuple[str, ...], options: dict[str, Any]) -> None:
    assert given(*arguments) == repr(options)


def test_an_empty_list_is_refused_where_one_must_be_named() -> None:
    @dataclass(frozen=True)
    class Stroll:
        """How one walks.

        Args:
            models: The models.
        """

        models: Sequence[str] = ("gru",)

    @takes(Stroll)
    def walk(**options: Any) -> None:
        """Walk."""
        typer.echo(repr(options))

    assert options_of(walk)["--models"].help == "The models. Separated by commas, like a,b,c. Default: gru."
    command = typer.Typer(add_completion=False)
    command.command()(walk)
    assert CliRunner().invoke(command, ["--models", "a,b"]).stdout == "{'models': ['a', 'b']}\n"
    empty = CliRunner().invoke(command, ["--models", ""])
    assert isinstance(empty.exception, ConfigError)
    assert str(empty.exception) == "--models is empty; give a value, or leave it out"


def test_only_the_listed_fields_are_added() -> None:
    @takes((Speed, ("rate", "dry")), (HoldOut, ("holdout",)))
    def walk(**options: Any) -> None:
        """Walk."""

    assert list(options_of(walk)) == ["--rate", "--dry", "--holdout"]


def test_a_type_that_does_not_fit_is_refused() -> None:
    command = typer.Typer(add_completion=False)
    command.command()(run)
    result = CliRunner().invoke(command, ["--max-steps", "many"])
    assert result.exit_code == 2
    assert "--max-steps" in result.output


@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        ("fit", (Columns, TableFormat, Cuts, StaticColumns)),
        ("features", (Columns, Cuts, TableFormat)),
        ("embed", (Cuts, TableFormat)),
        ("decide", (DecisionOptions, TableFormat)),
        ("predict", (Cuts, TableFormat)),
        ("surprise", (Cuts, TableFormat)),
        ("update", (UpdateOptions, TableFormat)),
        ("audit", (AuditOptions,)),
        ("compare", (CompareOptions,)),
        ("tune", (TuneOptions,)),
    ],
)
def test_commands_have_the_options_of_the_python_calls(command: str, kinds: tuple[type[Any], ...]) -> None:
    built = typer.main.get_command(app)
    options = {name: option for option in built.commands[command].params for name in option.opts}
    absent = {"fitting", "static_columns"}  # mappings and dataclasses, which are written with --set data.…
    for kind in kinds:
        for field in fields(kind):
            if field.name not in absent:
                text = options[f"--{field.name.replace('_', '-')}"].help
                assert text.startswith(descriptions(kind)[field.name].partition(". ")[0].rstrip("."))


@pytest.mark.parametrize(
    ("command", "function", "names"),
    [
        ("decide", ev.decide, ("saves",)),
        ("describe", ev.describe, ("most",)),
        ("describe", ev.SentenceIndex.of, ("backbone",)),
        ("features", ev.features, ("parts",)),
        ("report", ev.report, ("title", "map_seed")),
        ("search", ev.search, ("count",)),
    ],
)
def test_options_that_a_command_writes_itself_are_those_of_the_call(
    command: str, function: Callable[..., Any], names: tuple[str, ...]
) -> None:
    built = typer.main.get_command(app)
    options = {name: option for option in built.commands[command].params for name in option.opts}
    for name in names:
        option, default = options[f"--{name.replace('_', '-')}"], inspect.signature(function).parameters[name].default
        assert option.default is None  # the call decides
        assert re.findall(r"Default: (.*)\.$", option.help) == ([] if default in (None, "") else [str(default)])


def test_the_parts_that_features_names_are_those_that_there_are() -> None:
    built = typer.main.get_command(app)
    (option,) = (option for option in built.commands["features"].params if option.name == "parts")
    assert all(part in option.help for part in BLOCKS)


@pytest.mark.parametrize(
    "kind",
    [
        *(Columns, Cuts, TableFormat, HoldOut, StaticColumns, FitOptions, EvaluationOptions, UpdateOptions),
        *(AuditOptions, CompareOptions, DecisionOptions, TuneOptions),
    ],
)
def test_each_option_is_described(kind: type[Any]) -> None:
    assert list(descriptions(kind)) == [field.name for field in fields(kind)]
    assert all(text[0].isupper() and text.endswith(".") for text in descriptions(kind).values())


def test_texts_are_converted_or_refused() -> None:
    assert split_names(" a,b ,,c") == ["a", "b", "c"]
    assert numbers("--fractions", "1, 0.25") == [1.0, 0.25]
    assert [seconds("--time-budget", text) for text in ("90", "90s", "1.5m", "2h")] == [90.0, 90.0, 90.0, 7200.0]
    with pytest.raises(ConfigError, match="--fractions must be numbers separated by commas"):
        numbers("--fractions", "all")
    for text in ("soon", "s", "", "10 minutes"):
        with pytest.raises(ConfigError, match=f"--time-budget must be seconds, minutes or hours, .* got '{text}'"):
            seconds("--time-budget", text)
