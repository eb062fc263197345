"""The loader of UCI HAR on a small archive of the published form, and its refusals."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import eventvec as ev
from eventvec.datasets.smartphones import FOLDER, SIGNALS, STEPS

ACTIVITIES = ("WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING")
NAMES = ("tBodyAcc-mean()-X", "fBodyAcc-bandsEnergy()-1,8", "fBodyAcc-bandsEnergy()-1,8")


def matrix(values: np.ndarray) -> str:
    """Return numbers as the archive writes them: fixed width, an exponent of three digits."""
    return "\n".join(
        "".join(f"{value: 16.7e}".replace("e-", "e-0").replace("e+", "e+0") for value in row) for row in values
    )


def written(path: Path, change: dict[str, str] | None = None) -> tuple[Path, dict[str, np.ndarray]]:
    """Write a folder of 8 training and 4 test windows and return it, with the numbers of each file."""
    rng, numbers = np.random.default_rng(0), {}
    files = {
        "activity_labels.txt": "\n".join(f"{i + 1} {name}" for i, name in enumerate(ACTIVITIES)),
        "features.txt": "\n".join(f"{i + 1} {name}" for i, name in enumerate(NAMES)) + "\n",
    }
    for part, count in (("train", 8), ("test", 4)):
        for signal in SIGNALS:
            name = f"{part}/Inertial Signals/{signal}_{part}.txt"
            numbers[name] = rng.normal(size=(count, STEPS))
        numbers[f"{part}/X_{part}.txt"] = rng.uniform(-1, 1, (count, len(NAMES)))
        files[f"{part}/subject_{part}.txt"] = "\n".join(
            str(i % 3 + (20 if part == "test" else 1)) for i in range(count)
        )
        files[f"{part}/y_{part}.txt"] = "\n".join(str(i % 6 + 1) for i in range(count))
    files |= {name: matrix(values) for name, values in numbers.items()}
    for name, text in (files | (change or {})).items():
        file = path / FOLDER / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return path / FOLDER, numbers


def zipped(folder: Path) -> Path:
    archive = folder.parent / "archive.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in folder.rglob("*.txt"):
            file.write(path, path.relative_to(folder.parent))
    return archive


def test_windows_features_and_labels_are_those_of_the_files(tmp_path: Path) -> None:
    folder, numbers = written(tmp_path)
    data, labels = ev.datasets.uci_har(folder)
    assert repr(data) == "Dataset(12 entities, 1,536 events, 9 fields)"
    assert data.keys.to_pylist() == labels["window"].to_list() == list(range(12))
    assert labels["test"].to_list() == [False] * 8 + [True] * 4
    assert labels["activity"].to_list()[:7] == [name.lower() for name in (*ACTIVITIES, ACTIVITIES[0])]
    assert labels["user"].to_list() == [1, 2, 3, 1, 2, 3, 1, 2, 20, 21, 22, 20]
    for signal in SIGNALS:
        both = [numbers[f"{part}/Inertial Signals/{signal}_{part}.txt"] for part in ("train", "test")]
        np.testing.assert_allclose(data.sequences.values(signal).view(12, STEPS), np.concatenate(both), rtol=1e-5)
    features = np.concatenate([numbers["train/X_train.txt"], numbers["test/X_test.txt"]])
    columns = ("tBodyAcc-mean()-X", "fBodyAcc-bandsEnergy()-1,8 #2", "fBodyAcc-bandsEnergy()-1,8 #3")
    for place, name in enumerate(columns):
        np.testing.assert_allclose(data.sequences.static[name], features[:, place], rtol=1e-5)


def test_scales_are_those_of_the_training_users(tmp_path: Path) -> None:
    folder, numbers = written(tmp_path)
    data, _ = ev.datasets.uci_har(folder)
    train = numbers["train/Inertial Signals/body_acc_x_train.txt"]
    assert data.schema.numeric[0].mean == pytest.approx(train.mean(), abs=1e-6)
    assert data.schema.static[0].mean == pytest.approx(numbers["train/X_train.txt"][:, 0].mean(), abs=1e-6)  # type: ignore[union-attr]


def test_the_archive_and_the_folder_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = written(tmp_path)
    data, labels = ev.datasets.uci_har(folder)
    other, others = ev.datasets.uci_har(zipped(folder))
    assert labels.equals(others)
    assert (data.schema, data.fingerprint) == (other.schema, other.fingerprint)
    monkeypatch.setenv("EVENTVEC_DATA", str(tmp_path))
    assert ev.datasets.uci_har()[0].fingerprint == data.fingerprint


def test_files_that_are_absent_or_damaged_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENTVEC_DATA", raising=False)
    with pytest.raises(
        ev.DataError, match=r"uci_har needs the archive UCI HAR Dataset.zip; get it from https://archive"
    ):
        ev.datasets.uci_har()
    with pytest.raises(ev.DataError, match="nowhere, which does not exist"):
        ev.datasets.uci_har(tmp_path / "nowhere")
    (tmp_path / "no.zip").write_text("no zip")
    with pytest.raises(ev.DataError, match="is not a zip archive"):
        ev.datasets.uci_har(tmp_path / "no.zip")
    for change, message in (
        ({"train/X_train.txt": "1 2 x"}, "train/X_train.txt in .* has a value that is not a number"),
        ({"train/X_train.txt": "1 2 3 4"}, "train/X_train.txt in .* has 4 numbers in a line, and 3 are needed"),
        ({"train/subject_train.txt": "one"}, "train/subject_train.txt in .* has a value that is not a number"),
        ({"test/y_test.txt": "7"}, "has the activity '7', which activity_labels.txt lacks"),
        ({"train/Inertial Signals/body_gyro_y_train.txt": " ".join(["0"] * STEPS)}, "of train in .* different numbers"),
        ({"test/y_test.txt": "1\n2"}, "the files of test in .* have different numbers of rows"),
    ):
        folder, _ = written(tmp_path / str(abs(hash(message))), change)
        with pytest.raises(ev.DataError, match=message):
            ev.datasets.uci_har(folder)
    (folder / "features.txt").unlink()
    with pytest.raises(ev.DataError, match=r"uci_har needs features.txt, which is not in"):
        ev.datasets.uci_har(folder)
