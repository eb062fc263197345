"""The command that writes an encoder as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eventvec import exporting, runs
from eventvec.cli import terminal
from eventvec.cli.application import Overwrite, RunFolder, command
from eventvec.cli.parameters import Json


@command
def export(
    run: RunFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="ONNX file to write.")],
    overwrite: Overwrite = False,
    json_: Json = False,
) -> None:
    """Write the encoder of a run as an ONNX file, which scores events without torch and continues from stored states.

    Example: `eventvec export run -o encoder.onnx`
    """
    about = exporting.to_onnx(runs.load(run), output, overwrite=overwrite)
    rows = {
        "file": str(output),
        "MB": round(output.stat().st_size / 1e6, 1),
        "run": about["run"],
        "numbers per vector": about["dim"],
        "numbers per state": about["stored_dim"],
        "columns": ", ".join(column["name"] for column in about["columns"]),
    }
    terminal.show(about if json_ else rows, json_)
