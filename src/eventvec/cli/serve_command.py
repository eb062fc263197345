"""The command that serves fresh vectors over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from eventvec import tables
from eventvec.cli import terminal
from eventvec.cli.application import RunFolder, command
from eventvec.cli.event_inputs import on_device
from eventvec.cli.parameters import Device, takes
from eventvec.options import gather
from eventvec.serving.serve_options import ServeOptions


@command
@takes(ServeOptions)
def serve(
    run: RunFolder,
    state: Annotated[Path, typer.Option(help="State store of the run; created if it does not exist.")],
    device: Device = "auto",
    **options: Any,
) -> None:
    """Serve fresh vectors over HTTP: an event in, a vector out, from stored states. SIGTERM or Ctrl-C ends it.

    Example: `eventvec serve run --state state.db`, then `curl localhost:8000/vectors/KEY`; `/docs` has the other routes

    For other machines: `--host 0.0.0.0`, with a token in the variable EVENTVEC_TOKEN
    """
    from eventvec.serving.limits import read_token
    from eventvec.serving.server import serve as serve_run

    read_token(gather(options, ServeOptions).host)
    tables.check_place(state)
    trained = on_device(run, device)
    serve_run(trained, state, ready=lambda address: terminal.say(f"run {trained.id} at {address}"), **options)
