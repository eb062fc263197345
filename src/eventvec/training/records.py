"""The records of a training for TensorBoard and for MLflow, as functions that `fit` calls as it goes.

Both write files in a folder, and open no connection. What is written are losses, learning rates and settings, and
nothing of the data.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from eventvec.errors import ConfigError, need, shown
from eventvec.files import path_only, refuse_inside_model

SCALES = ("epoch", "step", "share")
"""The entries of a record that say where the training is, and are no curves."""


OF_MLFLOW = (".trash", "models")
"""The folders of a file store of MLflow that are no experiments."""
AT_ONCE, LONGEST = 100, 6000
"""The number of parameters that MLflow takes at once, and the number of characters that it takes of each."""


class TensorBoardRecords(AbstractContextManager["TensorBoardRecords"]):
    """A function of the records of `fit` that writes them for TensorBoard; `to_tensorboard` returns it."""

    def __init__(self, folder: Path) -> None:
        need("tensorboard", "tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder))
        self._step = -1

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Write a record of a step or an epoch."""
        for name, value in curves(record, self._step).items():
            self._writer.add_scalar(name, value, record["step"])
        if record["step"] == self._step:
            self._writer.flush()
        self._step = record["step"]

    def __exit__(self, *error: object) -> None:
        self._writer.close()


class MlflowRecords(AbstractContextManager["MlflowRecords"]):
    """A function of the records of `fit` that writes them into a file store of MLflow; `to_mlflow` returns it.

    Args:
        settings: Tables of settings, which become parameters of the run.
    """

    def __init__(
        self, folder: Path, experiment: str, name: str | None, settings: Mapping[str, Mapping[str, Any]]
    ) -> None:
        with _file_store():
            self._client = need("mlflow.tracking", "mlflow").MlflowClient(tracking_uri=folder.resolve().as_uri())
            known = self._client.get_experiment_by_name(experiment)
            place = known.experiment_id if known else self._client.create_experiment(experiment)
            self._run = self._client.create_run(place, run_name=name).info.run_id
            entities = need("mlflow.entities", "mlflow")
            self._metric = entities.Metric
            params = [entities.Param(key, value[:LONGEST]) for key, value in flat(settings).items()]
            for start in range(0, len(params), AT_ONCE):
                self._client.log_batch(self._run, params=params[start : start + AT_ONCE])
        self._step = -1

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Write a record of a step or an epoch."""
        now, step = int(time.time() * 1000), record["step"]
        metrics = [self._metric(name, value, now, step) for name, value in curves(record, self._step).items()]
        with _file_store():
            self._client.log_batch(self._run, metrics=metrics)
        self._step = step

    def __exit__(self, *error: object) -> None:
        with _file_store():
            self._client.set_terminated(self._run, "FINISHED" if error[0] is None else "FAILED")


def to_tensorboard(folder: Path | str) -> TensorBoardRecords:
    """Return a function for `fit(progress=...)` that writes the training for TensorBoard.

    The curves are `step/loss`, `step/lr` and so on, one number per step, and `epoch/loss`, `epoch/validation` and so
    on, one per epoch, all by the number of the step. As a context manager it closes the file at the end; each epoch is
    written to disk anyway.

    Args:
        folder: The folder to write to; each training adds one file.

    Raises:
        ConfigError: If tensorboard is not installed, or the folder is a file or lies in a model folder.

    Example:
        >>> import tempfile
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> data = ev.read(events, key="id", time="t", numeric=["v"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with ev.to_tensorboard(folder) as records:
        ...         run = ev.fit(data, method="ocp", epochs=2, progress=records)
        ...     [path.name[:19] for path in Path(folder).iterdir()]
        ['events.out.tfevents']
    """
    return TensorBoardRecords(_place(folder))


def to_mlflow(
    folder: Path | str,
    *,
    experiment: str = "eventvec",
    name: str | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> MlflowRecords:
    """Return a function for `fit(progress=...)` that writes the training into a file store of MLflow.

    A run of MLflow begins at once; as a context manager, the function ends it, as failed if there was an error. The
    metrics are named as by `to_tensorboard`. MLflow keeps its file store as it is and advises a database for new
    features; the store can be moved to one with its command ``mlflow migrate-filestore``. No usage data are sent, also
    where MLflow is set up to do so.

    Args:
        folder: The folder of the store, such as `mlruns`; ``mlflow ui`` shows it.
        experiment: The experiment to which the run belongs; it is created if it does not exist.
        name: The name of the run; MLflow invents one by default.
        settings: The tables of a configuration, which become the run's parameters, such as `method.margin`.

    Raises:
        ConfigError: If mlflow is not installed, or the folder is a file, holds other files or lies in a model folder.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> data = ev.read(pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2]}), key="id", time="t")
        >>> with ev.to_mlflow("mlruns", settings={"method": {"name": "ocp"}}) as records:  # doctest: +SKIP
        ...     run = ev.fit(data, method="ocp", epochs=2, progress=records)
    """
    path = _place(folder)
    for other in path.iterdir():
        if other.is_dir() and other.name not in OF_MLFLOW and not (other / "meta.yaml").exists():
            raise ConfigError(
                f"{path} holds {shown(other.name)}, which is not MLflow's; name a new folder for its store"
            )
    return MlflowRecords(path, experiment, name, settings or {})


def curves(record: Mapping[str, Any], last_step: int) -> dict[str, float]:
    """Return the numbers of a record by the names of their curves.

    `fit` gives a record after each step and one after each epoch, which has the number of the last step again.

    Args:
        record: A record of `fit`.
    """
    kind = "epoch" if record["step"] == last_step else "step"
    return {
        f"{kind}/{name}": float(value) for name, value in record.items() if name not in SCALES and value is not None
    }


def flat(tables: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the entries of nested tables as texts, by their dotted names."""
    entries: dict[str, str] = {}
    for name, value in tables.items():
        entries |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": str(value)}
    return entries


def _place(folder: Path | str) -> Path:
    """Return a folder to write to, which is created; only its owner can read it."""
    path = path_only(folder)
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{path} is a file; name a folder for the records of the training")
    refuse_inside_model(path, "name a folder elsewhere")
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


@contextmanager
def _file_store() -> Iterator[None]:
    """Let MLflow write to a folder inside the block, and send no usage data; it reads both from the environment."""
    wanted = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
