"""Commands: valid, slightly wrong and wildly wrong ones end in an exit code of 0, 1 or 2, and destroy nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import typer
import workplace
from draws import chance
from outcomes import ACCEPTED, Refused, check_files, check_finite, check_stderr, require, snapshot
from typer.testing import CliRunner

import eventvec as ev
from eventvec.cli import app

INPUTS = (
    "events.parquet", "events.csv", "labels.parquet", "labels.csv", "later.parquet", "other.parquet", "z.parquet",
    "wide.parquet", "zm.parquet", "months.parquet", "p.parquet", "run", "run2", "tuned", "lstm", "judge", "state.db",
    "lstm.db", "mine.txt", "empty", "broken.parquet", "broken.csv", "folder", "link.parquet", "dangling.parquet",
    "runlink", "hostile\nname.parquet", "absent.parquet", "fifo", "", ".", "/dev/null", "[", "*.parquet", "folder/*",
    "run/run.json", "run/model.safetensors", "x" * 300, "~", "~nobody/x", "config.toml", "mine.txt/below",
)  # fmt: skip
OUTPUTS = (
    "out.parquet", "new/folder/out.parquet", "events.parquet", "z.parquet", "p.parquet", "mine.txt", "empty",
    "run/out.parquet",
    "runlink/out.parquet", "folder/out.parquet", "link.parquet", "dangling.parquet", "fifo", "folder", "state.db",
    "state.db-wal", "/dev/null",
    "", ".", "..", "out\nline.parquet", "\x1b[31mred.parquet", "x" * 300, "mine.txt/below.parquet", "run",
    "labels.parquet", "out", "é.parquet",
    "/proc/out.parquet", "-",
)  # fmt: skip
ROLES = ("--key", "id", "--time", "t")
OURS = ("z.parquet", "wide.parquet", "zm.parquet", "p.parquet", "empty")
"""Files that eventvec wrote, or that are empty: it may replace them without being asked."""
SETS = (
    "encoder.dim=4", "encoder.dim=0", "encoder.dim=1000000000", "encoder.dim=four", "encoder.name=lstm",
    "encoder.name=os.system", "encoder.layers=2",
    "method.name=coles", "method.margin=nan", "method.margin=-1", "method.length=3", "method.label=label",
    "fit.lr=1e30", "fit.lr=0", "fit.lr=nan",
    "fit.batch_size=1", "fit.batch_size=2", "fit.validation=0.5", "fit.seed=-1", "fit.seed=99999999999999999999",
    "data.key=id", "data.keys=id", "data=3",
    "data.categorical=code", "data.categorical=['code']", "data.fitting={min_count=0}", "fit.checkpoint_every=1", "x",
    "=", "a.b.c.d=1", "encoder=[]", "",
    "method.views={name='random_slices'}", "encoder.events={time=['gap']}", "fit.clip=1", "fit.precision=bfloat16",
    "fit.schedule=step",
    "data.path=other.parquet", "encoder.dim=[[[[", "fit.epochs=true", "data.static_columns={label='text'}", "\x00=1",
    "data.holdout=0.5",
)  # fmt: skip
TEXTS = {
    "key": ("id", "t", "code", "absent", "", "events"), "time": ("t", "id", "code", "absent", ""),
    "label": ("label", "score", "one", "id", "absent"),
    "categorical": ("code", "code,amount", "id", ",", "absent", "code,code"), "numeric": ("amount", "code", "t", ""),
    "until": ("2024-01-10", "2024-01-10T00:00Z", "9999-12-31", "0001-01-01", "soon", "5", "1e400", "-1", "nan"),
    "cutoffs": INPUTS, "static": INPUTS, "history": INPUTS, "state": ("state.db", "new.db", "lstm.db", *INPUTS),
    "events": INPUTS, "from": INPUTS,
    "cutoff_column": ("decided", "month", "t", "label", "absent"), "label_time": ("decided", "month", "label"),
    "group": ("group", "label", "absent"), "weight": ("weight", "score", "group", "label", "absent"),
    "split_at": ("2024-01-10", "2024-01-12T00:00Z", "1970-01-01", "soon", "5", ""),
    "gap": ("1d", "12h", "0", "-1d", "soon", "1e999", "nan", "", "5"), "features": INPUTS,
    "method": ("ocp", "coles", "rtd", "cpc", "next_event", "supervised", "none", "", "expclr", "tpp_embedding"),
    "encoder": ("gru", "lstm", "set", "tcn", "transformer", "aggregates", "language", "x"),
    "device": ("cpu", "auto", "cuda", "cuda:7", "meta", "moon", "", "mps"),
    "precision": ("float32", "bfloat16", "float16"),
    "late": ("drop", "refuse", "recompute", "x"), "task": ("binary", "multiclass", "numeric", "x"), "set": SETS,
    "forget": (workplace.KEYS[0], "absent", ""), "entity": (workplace.KEYS[0], "absent", "", "7"),
    "model": ("knn", "lightgbm", "ridge", "blend", "x", ""),
    "time_budget": ("0.01s", "0", "-1", "nan", "soon", "1e999", "h"), "key_as": ("who", "embedding", "", "a\nb"),
    "time_format": ("%Y", "%Q", "", "%Y-%m-%d %H:%M:%S"),
    "fractions": ("1,0.5", "0", "x", "nan", "1e-9", ""), "batch_id": ("a", "", "é\n"), "out": ("new-run", *OUTPUTS),
    "output": OUTPUTS,
}  # fmt: skip
NUMBERS = (
    "0",
    "1",
    "2",
    "3",
    "-1",
    "5",
    "0.5",
    "nan",
    "inf",
    "x",
    "",
    "99999999999999999999",
    "1e3",
    "4611686018427387904",
)
EPOCHS = ("1", "0", "-1", "x", "2")


@cache
def parameters(command: str) -> list[Any]:
    """Return the options of a command, other than `--help`."""
    every = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    return [each for each in every if each.param_type_name == "option"]


def play(rng: Random, folder: Path) -> str:
    """Play one case in an empty folder and return its outcome."""
    place = folder / "work"
    shutil.copytree(workplace.master(), place, symlinks=True)
    os.mkfifo(place / "fifo")
    os.chdir(place)
    command, arguments = _draw(rng)
    before = snapshot(folder)
    if chance(rng, 0.004):
        environment = {**os.environ, "COLUMNS": "200"}
        call = [sys.executable, "-m", "eventvec", *[text.replace("\x00", "") for text in arguments]]
        done = subprocess.run(
            call, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL, timeout=80
        )
        code, stdout, stderr = done.returncode, done.stdout, done.stderr
    else:
        result = CliRunner().invoke(app, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        code, stdout, stderr = result.exit_code, result.stdout, result.stderr
    require(code in (0, 1, 2), f"the exit code is {code}")
    require(not any(key in stdout for key in workplace.KEYS), "standard output has a key", stdout[:300])
    check_files(before, folder, _may_change(command, arguments, code))
    if code:
        typed = {text for before, text in pairwise(["", *arguments]) if before != "--forget"}  # in the place of a path
        check_stderr(stderr, [key for key in workplace.KEYS if key not in typed], usage=code == 2)
        raise Refused(f"{command}: {' '.join(stderr.split())[-400:]}")
    _check_output(command, arguments)
    return ACCEPTED


def _draw(rng: Random) -> tuple[str, list[str]]:
    """Return a command and its arguments: a valid call, with some arguments replaced, added or left out."""
    out = "out.parquet"
    calls = {
        "fit": ["--events", rng.choice(("events.parquet", "events.csv", "folder")), *ROLES, "--out", "new-run"],
        "fit ": ["config.toml", "--out", "new-run"],
        "fit  ": ["--events", "events.parquet", "--from", "run", "--out", "new-run"],
        "fit   ": ["--events", "events.parquet", *ROLES, "--out", "run", "--resume", "--holdout", "0.25"],
        "embed": [rng.choice(("run", "tuned", "lstm", "runlink")), "events.parquet", "-o", out],
        "update": ["run", "later.parquet", "--state", "state.db", "-o", out],
        "update ": ["run", "events.parquet", "--state", "new.db", "-o", out],
        "update  ": ["run", "--state", "state.db", "--forget", workplace.KEYS[3]],
        "predict": ["tuned", "events.parquet", "-o", out],
        "surprise": ["judge", "events.parquet", "-o", out],
        "evaluate": ["z.parquet", "labels.parquet", "--label", "label", "--folds", "2", "--fractions", "1"],
        "embed ": ["run", "events.parquet", "--cutoffs", "months.parquet", "--cutoff-column", "month", "-o", out],
        "evaluate ": ["zm.parquet", "months.parquet", "--label", "label", "--label-time", "month", "--folds", "2",
                      "--models", "knn", *rng.choice(((), ("--split-at", "2024-01-11"), ("--weight", "weight")))],
        "influence": ["run", "events.parquet", "labels.parquet", "--label", "label", "--folds", "2"],
        "influence ": [rng.choice(("run", "tuned", "lstm")), "events.parquet", "--entity", workplace.KEYS[3]],
        "doctor": [],
    }  # fmt: skip
    weights = [1 if name == "doctor" else 3 if name.strip() == "evaluate" else 10 for name in calls]
    name = rng.choices(list(calls), weights)[0]
    arguments, command = list(calls[name]), name.strip()
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        act = rng.random()
        if act < 0.35 and arguments:
            _replace(rng, arguments)
        elif act < 0.45 and arguments:
            arguments.pop(rng.randrange(len(arguments)))
        elif act < 0.5:
            arguments.insert(rng.randint(0, len(arguments)), rng.choice((*INPUTS, "--absent", "--", "-o", "-")))
        else:
            arguments += _option(rng, command)
    if command == "fit":
        arguments = ["absent.toml" if text == "fifo" else text for text in arguments]  # a configuration may be a pipe
        small = not any("encoder" in text or text == "--from" for text in arguments)
        arguments += ["--set", "encoder.dim=4"] if small else []
        arguments += ["--epochs", rng.choice(EPOCHS) if chance(rng, 0.05) else "1"]  # it would train for minutes
    if chance(rng, 0.2):
        arguments.append("--json")
    return command, [command, *arguments]


def _replace(rng: Random, arguments: list[str]) -> None:
    """Replace an argument by one that can stand in its place, or by any."""
    place = rng.randrange(len(arguments))
    before = arguments[place - 1] if place else ""
    option = {"-o": "output"}.get(before, before.removeprefix("--").replace("-", "_"))
    arguments[place] = rng.choice(TEXTS.get(option, INPUTS))


def _option(rng: Random, command: str) -> list[str]:
    """Return an option of a command with a value, which may be wrong."""
    options = [each for each in parameters(command) if each.name not in ("epochs",)] or [None]
    option = rng.choice(options)
    if option is None:
        return ["--absent"]
    if option.is_flag:
        return [option.opts[0]]
    name = option.opts[0].lstrip("-").replace("-", "_")
    return [option.opts[0], rng.choice(TEXTS.get(name, NUMBERS))]


def _value(arguments: list[str], *names: str) -> str | None:
    """Return the value of an option, the last one if it stands there twice."""
    values = [arguments[place + 1] for place, name in enumerate(arguments[:-1]) if name in names]
    return values[-1] if values else None


def _may_change(command: str, arguments: list[str], code: int) -> list[str]:
    """Return regular expressions of the files that a command may write: those that its options name.

    A refused command may leave the store that it has read the events into.
    """
    store = _value(arguments, "--store")
    allowed = [] if store is None else [_pattern(store) + r"(/[^./][^/]*)?"]
    if code:
        return allowed
    output, state, out = _value(arguments, "-o", "--output"), _value(arguments, "--state"), _value(arguments, "--out")
    texts = [text for place, text in enumerate(arguments) if arguments[place - 1] not in ("-o", "--output")]
    inputs = [text for text in texts if not text.startswith("--")]  # flags are no files, also if an output is so called
    if output is not None and output not in inputs:
        replaced = output in _files_before() and output not in OURS and "--overwrite" not in arguments
        in_run = any((parent / "run.json").exists() for parent in Path(output).resolve().parents)
        allowed += [] if replaced or in_run else [_pattern(output)]
    if command == "update" and state is not None:
        allowed.append(_pattern(state) + "(-wal|-shm)?")
    for records in (_value(arguments, "--mlflow"), _value(arguments, "--tensorboard")):
        allowed += [] if records is None else [_pattern(records) + "(/.*)?"]
    if command == "fit" and out is not None:
        resumed = out in ("run", "runlink")  # a finished run is only loaded
        allowed.append(_pattern(out) + (r"/metrics\.jsonl" if resumed else r"(/[^./][^/]*)?"))
    return allowed


def _pattern(path: str) -> str:
    """Return a regular expression of a path in the working folder, and of the folders above it."""
    place = Path(os.path.relpath(os.path.realpath(path), os.path.realpath("..")))
    above = [re.escape(parent.as_posix()) for parent in place.parents if parent.name not in ("", "work")]
    return f"({'|'.join([*above, re.escape(place.as_posix())])})"


@cache
def _files_before() -> frozenset[str]:
    return frozenset(path.name for path in workplace.master().iterdir())


def _check_output(command: str, arguments: list[str]) -> None:
    """Check that what an accepted command wrote is whole."""
    if "--help" in arguments:
        return
    output, out = _value(arguments, "-o", "--output"), _value(arguments, "--out")
    if command in ("embed", "update") and output is not None:
        check_finite(ev.read_embeddings(output))
    elif command in ("predict", "surprise") and output is not None:
        require(pq.ParquetFile(output).metadata.num_rows > 0, "the predictions are empty")
    elif command == "fit" and out is not None and "--dry-run" not in arguments:
        require(ev.load(out).info["finished"], "the run has not finished")
