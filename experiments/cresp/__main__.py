"""Stochastic processes: `python -m experiments.cresp TABLE [--small] [--json] [--picture FILE.svg] [--keep FOLDER]`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from eventvec.errors import ConfigError
from experiments.command_line import Experiment, Row, run
from experiments.cresp import noise_contrastive, snooker_variants
from experiments.cresp import physionet as stay_study
from experiments.cresp import sinusoids as sinusoid_study
from experiments.cresp import snooker as snooker_study
from experiments.cresp.solids_study import solid_classes
from experiments.line_chart import Panel, svg


def sinusoids(small: bool, picture: Path | None = None) -> list[Row]:
    """Mean squared error of phase and amplitude, linear in the embedding of 20 observations."""
    return _drawn(*sinusoid_study.study(small), picture)


def snooker(small: bool, keep: Path, picture: Path | None = None) -> list[Row]:
    """Accuracy of "do the balls overlap at x*?", linear in the embedding of 5 or 9 looks at the balls' positions."""
    return _without(picture, snooker_study.positions, small, keep)


def pictures(small: bool, keep: Path, picture: Path | None = None) -> list[Row]:
    """The same for looks at pictures of the balls: one network each of targeted CReSP and MetaCDE."""
    return _without(picture, snooker_study.pictures, small, keep)


def picture_batches(small: bool, keep: Path, picture: Path | None = None) -> list[Row]:
    """The same for all methods on pictures, in batches of 64 and of 256 (needs a GPU)."""
    return _drawn(*snooker_study.picture_batches(small, keep), picture)


def heads(small: bool, keep: Path, picture: Path | None = None) -> list[Row]:
    """Accuracy of targeted CReSP on snooker by its target head: ours, and two of the public code."""
    return _without(picture, snooker_variants.heads, small, keep)


def resnet(small: bool, keep: Path, picture: Path | None = None) -> list[Row]:
    """Accuracy on pictures of snooker with ResNet-18 and with LARS, beside the small network (needs a GPU)."""
    return _without(picture, snooker_variants.resnet, small, keep)


def metacde(small: bool, picture: Path | None = None) -> list[Row]:
    """Error of a function's value at x*, linear in MetaCDE's prediction: trained by InfoNCE, and with fake samples."""
    return _without(picture, noise_contrastive.metacde, small)


def solids(small: bool, picture: Path | None = None) -> list[Row]:
    """Accuracy of classes of solids by methods, distortions, labels and views."""
    return _without(picture, solid_classes, small)


def physionet(small: bool, keep: Path, picture: Path | None = None) -> list[Row]:
    """Error of held-out values of intensive-care stays, use of x*, and AUROC of death (3,000 training stays)."""
    return _without(picture, stay_study.physionet, small, keep)


def _without(picture: Path | None, study: Callable[..., list[Row]], *arguments: Any) -> list[Row]:
    """Return the rows of a study that draws nothing."""
    if picture is not None:
        raise ConfigError("this table has no picture; leave out --picture")
    return study(*arguments)


def _drawn(rows: list[Row], panels: list[Panel], picture: Path | None) -> list[Row]:
    if picture is not None:
        picture.write_text(svg(panels))
    return rows


TABLES: dict[str, Experiment] = {
    "sinusoids": sinusoids,
    "snooker": snooker,
    "pictures": pictures,
    "picture_batches": picture_batches,
    "heads": heads,
    "resnet": resnet,
    "metacde": metacde,
    "solids": solids,
    "physionet": physionet,
}


def main() -> None:
    """Run the table that the command line names."""
    run(
        "cresp", TABLES,
        picture={"type": Path, "metavar": "FILE", "help": "draw the study's figures to an SVG file"},
        keep={"type": Path, "default": Path("cresp-runs"), "metavar": "FOLDER",
              "help": "folder for what networks of snooker and of stays showed, which are not trained again"},
    )  # fmt: skip


if __name__ == "__main__":
    main()
