"""Stochastic processes: `python -m experiments.cresp TABLE [--small] [--json] [--picture FILE.svg]`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path

from eventvec.errors import ConfigError
from experiments.command_line import Experiment, Row, run
from experiments.cresp import sinusoids, snooker
from experiments.cresp.physionet import physionet
from experiments.cresp.solids_study import solid_classes
from experiments.line_chart import Panel, svg


def drawn(study: Callable[[bool], tuple[list[Row], list[Panel]]]) -> Experiment:
    """Return an experiment that draws the panels of a study to the file of `--picture`, and returns its rows."""

    @wraps(study)
    def experiment(small: bool, picture: Path | None = None) -> list[Row]:
        rows, panels = study(small)
        if picture is not None:
            picture.write_text(svg(panels))
        return rows

    return experiment


def without_picture(study: Callable[[bool], list[Row]]) -> Experiment:
    """Return an experiment that refuses `--picture`."""

    @wraps(study)
    def experiment(small: bool, picture: Path | None = None) -> list[Row]:
        if picture is not None:
            raise ConfigError("this table has no picture; leave out --picture")
        return study(small)

    return experiment


TABLES: dict[str, Experiment] = {
    "sinusoids": drawn(sinusoids.study),
    "snooker": drawn(snooker.study),
    "solids": without_picture(solid_classes),
    "physionet": without_picture(physionet),
}


def main() -> None:
    """Run the table that the command line names."""
    run("cresp", TABLES, picture={"type": Path, "metavar": "FILE", "help": "draw the study's figures to an SVG file"})


if __name__ == "__main__":
    main()
