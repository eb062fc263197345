"""Where the records of a training go: to the progress bar, and to folders for TensorBoard and MLflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from eventvec.errors import ConfigError
from eventvec.training.progress_bars import of_training
from eventvec.training.records import to_mlflow, to_tensorboard


@contextmanager
def recording(
    tick: Callable[..., None],
    tensorboard: Path | None,
    mlflow: Path | None,
    out: Path | None,
    settings: Mapping[str, Any],
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yield a function of the records of `fit` that gives them to the progress bar and to the folders that are named.

    No folder may lie in the model folder `out`. MLflow's run has its name, and the `settings` as parameters.
    """
    for option, folder in (("--tensorboard", tensorboard), ("--mlflow", mlflow)):
        if folder is not None and out is not None and out.resolve() in (folder.resolve(), *folder.resolve().parents):
            raise ConfigError(f"{option} {folder} lies in the model folder {out}; name a folder elsewhere")
    with ExitStack() as stack:
        functions: list[Callable[[Mapping[str, Any]], None]] = [of_training(tick)]
        if tensorboard is not None:
            functions.append(stack.enter_context(to_tensorboard(tensorboard)))
        if mlflow is not None:
            name = None if out is None else out.name
            functions.append(stack.enter_context(to_mlflow(mlflow, name=name, settings=settings)))

        def progress(record: Mapping[str, Any]) -> None:
            for function in functions:
                function(record)

        yield progress
