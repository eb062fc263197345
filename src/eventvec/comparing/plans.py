"""What `compare` and `tune` share: a folder with a plan, a budget, and the progress."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eventvec.errors import CheckpointError, ConfigError
from eventvec.files import sweep, write_text
from eventvec.options import above_zero, at_least
from eventvec.tables import check_place

Progress = Callable[[int, int, str], None]
PLAN, STEPS = "plan.json", 1000
BUDGET = 60.0


def budget(time_budget: float | None, epochs: int | None) -> tuple[dict[str, Any], str]:
    """Return the bound of each training as options of `fit`, and in words."""
    if time_budget is not None and epochs is not None:
        raise ConfigError("time_budget and epochs are both given; every training has one budget, so give one of them")
    if epochs is not None:
        at_least("epochs", epochs, 1)
        return {"epochs": epochs}, f"{epochs} epochs"
    seconds = BUDGET if time_budget is None else time_budget
    above_zero("time_budget", seconds)
    return {"time_budget": seconds}, f"{seconds:g} s of training"


def check_plan_folder(folder: Path, resume: bool, what: str) -> None:
    """Refuse a folder that holds other files, or a plan that is not to be continued, before anything is computed.

    `what` is what the folder is to hold, such as `comparison`. Drafts that killed processes left are deleted.
    """
    check_place(folder)
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; name a new folder for the {what}")
    if (folder / PLAN).is_file():
        if not resume:
            raise CheckpointError(
                f"{folder} holds a {what} already; go on with resume=True (--resume), or name another folder"
            )
    elif folder.exists():
        sweep(folder)
        if any(each.name != ".lock" for each in folder.iterdir()):
            raise CheckpointError(f"{folder} is not empty and holds no {what}; name a new folder")


def begin(folder: Path, described: Mapping[str, Any], resume: bool, what: str) -> None:
    """Write the plan into a new folder, or check that a folder has the same one."""
    check_plan_folder(folder, resume, what)
    path, text = folder / PLAN, json.dumps(described, indent=1, default=str)
    if path.is_file():
        before, now = json.loads(path.read_text()), json.loads(text)
        if different := [name for name in now if before.get(name) != now[name]]:
            raise CheckpointError(
                f"the {what} in {folder} was begun with another {different[0]}; name a new folder, or give the same"
            )
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_text(path, text)


def ticker(progress: Progress | None, before: int, total: int, name: str) -> Callable[..., None]:
    """Return a function of a share, or of what is done and all, that moves the progress of the whole plan."""

    def tick(done: float, of: int = 1, _: str = "") -> None:
        if progress:
            progress(before + int(STEPS * min(done / max(of, 1), 1.0)), total, name)

    return tick
