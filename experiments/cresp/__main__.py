"""Stochastic processes: `python -m experiments.cresp TABLE [--small] [--json] [--picture FILE.svg] [--keep FOLDER]`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from eventvec.errors import ConfigError
from experiments.command_line import Experiment, Row, run
from experiments.cresp import sinusoids as sinusoid_study
from experiments.cresp import snooker as snooker_study
from experiments.cresp.physionet import physionet
from experiments.cresp.solids_study import solid_classes
from experiments.line_chart import Panel, svg


def sinusoids(small: bool, picture: Path | None = None) -> list[Row]:
    """Mean squared error of phase and amplitude, linear in the embedding of 20 observations."""
    return _drawn(*sinusoid_study.study(small), picture)


def snooker(small: bool, keep: Path, picture: Path | None = None) -> list[Row]:
    """Accuracy of "do the balls overlap at x*?", linear in the embedding of 5 looks: positions, or pictures."""
    return _drawn(*snooker_study.study(small, keep), picture)


def without_picture(study: Callable[[bool], list[Row]]) -> Experiment:
    """Return an experiment that refuses `--picture`."""

    def experiment(small: bool, picture: Path | None = None) -> list[Row]:
        if picture is not None:
            raise ConfigError("this table has no picture; leave out --picture")
        return study(small)

    experiment.__doc__ = study.__doc__
    return experiment


def _drawn(rows: list[Row], panels: list[Panel], picture: Path | None) -> list[Row]:
    if picture is not None:
        picture.write_text(svg(panels))
    return rows


TABLES: dict[str, Experiment] = {
    "sinusoids": sinusoids,
    "snooker": snooker,
    "solids": without_picture(solid_classes),
    "physionet": without_picture(physionet),
}


def main() -> None:
    """Run the table that the command line names."""
    run(
        "cresp", TABLES,
        picture={"type": Path, "metavar": "FILE", "help": "draw the study's figures to an SVG file"},
        keep={"type": Path, "default": Path("cresp-runs"), "metavar": "FOLDER",
              "help": "folder for what networks of snooker showed, which are not trained again"},
    )  # fmt: skip


if __name__ == "__main__":
    main()
