"""The law of random labels: every printed score is at chance on average, and its interval is rarely above chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eventvec.errors import ConfigError
from eventvec.statistics import Estimate
from experiments.chance import law
from experiments.chance.printed_scores import SETS, predictor_score, winner_score
from experiments.chance.random_tables import Kind, Task
from experiments.command_line import Row, run
from experiments.jobs import side_by_side

DRAWS = {60: 400, 200: 200, 500: 100, 2000: 30}
"""How many tables are drawn of each number of rows."""
LEAST, SMALL = 30, 2
"""The fewest draws of a row of the table, and those in the small mode."""
KINDS: tuple[Kind, ...] = ("no times", "times", "panel", "panel, months differ")
OTHER_TASKS: tuple[Task, ...] = ("binary, weighted", "three classes", "numbers")
OTHERS: tuple[tuple[Kind, int], ...] = (("no times", 60), ("no times", 200), ("times", 500))
"""The tables on which the other tasks are tried."""
WINNERS: tuple[tuple[Task, int], ...] = (("binary", 60), ("binary", 200), ("binary", 500), ("three classes", 200))

Cell = tuple[str, Task, int]


def table(
    small: bool, draws: float, rows: Sequence[int] | None = None, kinds: Sequence[Kind] | None = None
) -> list[Row]:
    """The score that a classifier or a regressor prints of tables with random labels: its mean, and its intervals."""
    cells: list[Cell] = [(kind, "binary", size) for kind in KINDS for size in DRAWS]
    cells += [(kind, task, size) for task in OTHER_TASKS for kind, size in OTHERS]
    chosen = [min(DRAWS)] if small else rows or list(DRAWS)
    cells = [cell for cell in cells if cell[0] in (kinds or KINDS) and cell[2] in chosen]
    return _rows(predictor_score, cells, small, draws)


def winners(small: bool, draws: float, rows: Sequence[int] | None = None) -> list[Row]:
    """The score that is printed of the best of five random sets of features: its mean, and its intervals."""
    cells: list[Cell] = [(f"best of {SETS}", task, size) for task, size in WINNERS if size in (rows or DRAWS)]
    return _rows(winner_score, cells[:1] if small else cells, small, draws)


def _rows(function: Callable[..., Estimate | None], cells: list[Cell], small: bool, share: float) -> list[Row]:
    """Return a row for each cell, whose draws have the seeds 0, 1, 2 and so on."""
    if not 0 < share <= 1:
        raise ConfigError(f"--draws must be above 0 and at most 1, got {share:g}")
    counts = [SMALL if small else max(round(share * DRAWS[rows]), LEAST) for _, _, rows in cells]
    jobs = [(*cell, seed) for cell, count in zip(cells, counts, strict=True) for seed in range(count)]
    scores = iter(side_by_side(function, jobs))
    return [law.row(*cell, [next(scores) for _ in range(count)]) for cell, count in zip(cells, counts, strict=True)]


TABLES = {"table": table, "winners": winners}


def main() -> None:
    """Run the table that the command line names."""
    run(
        "chance",
        TABLES,
        draws={
            "type": float,
            "default": 1.0,
            "metavar": "SHARE",
            "help": f"the share of the draws that are made; at least {LEAST} each",
        },
        kinds={"nargs": "+", "choices": list(KINDS), "help": "the kinds of tables; by default all"},
        rows={"type": int, "nargs": "+", "choices": list(DRAWS), "help": "the numbers of rows; by default all"},
    )


if __name__ == "__main__":
    main()
