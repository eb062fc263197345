"""The arguments of a command, none of which is an address but those that name a table.

An address may have a password. One at another place, or that is not well formed, is refused before a message can show
it, or a folder gets its name.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from eventvec.credentials import has_login, is_address

TABLES = {
    "among", "at", "cutoffs", "embeddings", "events", "features", "first", "history", "known", "labels", "names", "new",
    "old", "output", "protected", "rule", "second", "set_", "static", "third",
}  # fmt: skip
"""The parameters that take tables, where they take texts; `--set` may set one of these."""
HEADINGS = {
    "Start": ("demo", "doctor"),
    "Learn": ("labels", "fit", "compare", "tune"),
    "Use": ("features", "embed", "update", "serve", "predict", "decide", "surprise", "search", "describe", "export"),
    "Look": ("report", "explain", "influence", "card"),
    "Check": ("evaluate", "drift", "audit"),
}
"""The headings of `--help` in the order of work, each with its commands in that order."""
KEY = "KEY"
"""How the help names a value of the key column, which may look like anything and is never shown."""
PATH = "it looks like an address, and only a path is accepted here; give a file or a folder, ./name if it has a colon"
NAME = "it looks like an address with a password, which is accepted for tables only"


class Command(TyperCommand):
    """A command that refuses addresses where no table is taken, before anything else is said about its arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments as typer does, after addresses were refused."""
        if any(is_address(text) or is_address(text.lstrip("-")) for text in args):
            self._refuse_addresses(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_addresses(self, ctx: Any, args: list[str]) -> None:
        if any(is_address(text.lstrip("-").partition("=")[0]) for text in args if text.startswith("-")):
            raise typer.BadParameter(NAME, ctx=ctx)
        callback: Any = self.callback
        signature = inspect.signature(callback, eval_str=True)
        hints = {name: each.annotation for name, each in signature.parameters.items()}
        values, rest, _ = self.make_parser(ctx).parse_args(args=list(args))
        parameters: list[Any] = self.get_params(ctx)  # typer's own classes or those of click
        for parameter in parameters:
            is_path = _has_path(hints.get(parameter.name))
            if (parameter.name in TABLES and not is_path) or parameter.metavar == KEY:
                continue
            given = values.get(parameter.name)
            texts = [text for text in (given if isinstance(given, list | tuple) else [given]) if isinstance(text, str)]
            if any(map(is_address if is_path else has_login, texts)):
                raise typer.BadParameter(PATH if is_path else NAME, ctx=ctx, param=parameter)
        if any(map(is_address, rest)):
            raise typer.BadParameter(NAME, ctx=ctx)


class Commands(TyperGroup):
    """A group with its commands in the order of work, which does not show an address in place of a command."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of `HEADINGS`."""
        return [name for names in HEADINGS.values() for name in names if name in self.commands]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments as typer does, after an address in place of a command was refused."""
        if args and is_address(args[0].lstrip("-")):
            raise typer.BadParameter(f"{NAME}; name a command first", ctx=ctx)
        return super().parse_args(ctx, args)


def _has_path(hint: Any) -> bool:
    """Return whether a type is that of a path, or is made of such."""
    return hint is Path or any(map(_has_path, get_args(hint)))
