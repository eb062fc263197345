"""UCI HAR: six activities of thirty people with a smartphone at the waist, from the archive of the UCI repository."""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from eventvec.dataset import Dataset
from eventvec.datasets.bundled import Labelled
from eventvec.errors import DataError
from eventvec.sequences import Array
from eventvec.tables import Fitting, read

ORIGIN = "https://archive.ics.uci.edu/dataset/240"
FOLDER = "UCI HAR Dataset"
SIGNALS = tuple(f"{signal}_{axis}" for signal in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")
STEPS = 128

Place: TypeAlias = Path | zipfile.Path


def uci_har(path: str | Path | None = None) -> Labelled:
    """Return 10,299 windows of motion at 50 Hz with their 561 expert features, and the activity and the user.

    A window has 128 steps (2.56 s) of nine channels: acceleration of the body and in total (g), and rotation (rad/s),
    each in x, y and z. The features are static columns under their published names; a name that the list has several
    times gets its number, such as `fBodyAcc-bandsEnergy()-1,8 #303`. All scales are fitted without the logarithm, to
    the windows of the training users. Labels: `user`, `activity` (6) and `test`, true for the nine test users.

    Source: UCI repository, data set 240, Anguita et al. 2013, CC BY 4.0.

    Args:
        path: The archive, `UCI HAR Dataset.zip`, or the folder that is in it; by default, either in the folder that
            EVENTVEC_DATA names.

    Raises:
        DataError: If a file is not there, or has another form.

    Example:
        >>> data, labels = uci_har("UCI HAR Dataset.zip")  # doctest: +SKIP
        >>> data, len(data.schema.static)  # doctest: +SKIP
        (Dataset(10,299 entities, 1,318,272 events, 9 fields), 561)
    """
    place = _place(path)
    names = _feature_names(place)
    names_of_codes = {code: name.lower() for code, name in map(str.split, _lines(place, "activity_labels.txt"))}
    signals, features, labels, first = [], [], [], 0
    for part in ("train", "test"):
        values = [_numbers(place, f"{part}/Inertial Signals/{signal}_{part}.txt", STEPS) for signal in SIGNALS]
        features.append(_numbers(place, f"{part}/X_{part}.txt", len(names)))
        users = _numbers(place, f"{part}/subject_{part}.txt", 1)[:, 0].astype(np.int64)
        codes = [line.strip() for line in _lines(place, f"{part}/y_{part}.txt")]
        if unknown := [code for code in codes if code not in names_of_codes]:
            raise DataError(
                f"{part}/y_{part}.txt in {place} has the activity {unknown[0]!r}, which activity_labels.txt lacks; get "
                f"it from {ORIGIN}"
            )
        activities = [names_of_codes[code] for code in codes]
        if len({*map(len, values), len(features[-1]), len(users), len(activities)}) > 1:
            raise DataError(f"the files of {part} in {place} have different numbers of rows; get them from {ORIGIN}")
        signals.append(np.stack(values, 2))  # (windows, steps, channels)
        window = np.arange(first, first := first + len(users), dtype=np.int32)
        labels.append(pl.DataFrame({"window": window, "user": users, "activity": activities, "test": part == "test"}))
    return _dataset(signals, features, labels, names), pl.concat(labels)


def _dataset(signals: list[Array], features: list[Array], labels: list[pl.DataFrame], names: list[str]) -> Dataset:
    """Return the windows of both parts, with the schema of the first."""
    tables = []
    for values, table in zip(signals, labels, strict=True):
        flat = values.reshape(-1, len(SIGNALS))
        step = np.tile(np.arange(STEPS, dtype=np.int32), len(values))
        columns = {name: flat[:, i] for i, name in enumerate(SIGNALS)}
        tables.append(pl.DataFrame({"window": table["window"].to_numpy().repeat(STEPS), "step": step, **columns}))
    static = [
        pl.DataFrame({"window": table["window"], **{name: values[:, i] for i, name in enumerate(names)}})
        for values, table in zip(features, labels, strict=True)
    ]
    kinds = dict.fromkeys(names, "numeric")
    roles: dict[str, Any] = {"key": "window", "time": "step", "categorical": (), "numeric": SIGNALS}
    train = read(tables[0], static=static[0], static_columns=kinds, fitting=Fitting(log=False), **roles)
    return read(pl.concat(tables), schema=train.schema, static=pl.concat(static))


def _place(path: str | Path | None) -> Place:
    """Return the folder of the data, in the file system or in the archive."""
    if path is None:
        data = os.environ.get("EVENTVEC_DATA")
        present = [Path(data) / name for name in (FOLDER, f"{FOLDER}.zip") if data and (Path(data) / name).exists()]
        if not present:
            raise DataError(
                f"uci_har needs the archive {FOLDER}.zip; get it from {ORIGIN} and pass its path, or put it into the "
                "folder that EVENTVEC_DATA names"
            )
        path = present[0]
    place: Place = Path(path)
    if not Path(path).exists():
        raise DataError(f"uci_har needs {path}, which does not exist; get the archive from {ORIGIN}")
    if Path(path).is_file():
        try:
            place = zipfile.Path(path) / FOLDER
        except zipfile.BadZipFile as error:
            raise DataError(f"{path} is not a zip archive; get it from {ORIGIN}") from error
    return place


def _lines(place: Place, name: str) -> list[str]:
    """Return the lines of a file that are not empty."""
    file = place.joinpath(*name.split("/"))
    if not file.is_file():
        raise DataError(
            f"uci_har needs {name}, which is not in {place}; if this is the larger archive of {ORIGIN}, unpack it and "
            f"pass {FOLDER}.zip that is in it"
        )
    return [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def _numbers(place: Place, name: str, width: int) -> Array:
    """Return `(rows, width)` numbers of a file, float32."""
    lines = _lines(place, name)
    try:
        values = np.loadtxt(lines, dtype=np.float32, ndmin=2)
    except ValueError as error:
        raise DataError(f"{name} in {place} has a value that is not a number; get it from {ORIGIN}") from error
    if values.shape[1] != width:
        raise DataError(f"{name} in {place} has {values.shape[1]} numbers in a line, and {width} are needed")
    return values


def _feature_names(place: Place) -> list[str]:
    """Return the names of the features; one that occurs several times with its number."""
    pairs = [line.split() for line in _lines(place, "features.txt")]
    times = Counter(name for _, name in pairs)
    return [name if times[name] == 1 else f"{name} #{number}" for number, name in pairs]
