"""Commands in processes of their own, valid, wrong, interrupted, twice at a time, and with a password.

Each of them ends with an exit code of 0, 1 or 2, or with that of its signal, says why in one sentence, destroys
nothing, writes whole files and whole pages, and shows no key and no password.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random

import command_draws
import fork_server
import further_inputs
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import workplace
from command_draws import Call
from draws import chance
from fork_server import Ended
from outcomes import (
    ACCEPTED,
    Broken,
    Refused,
    check_files,
    check_finite,
    check_same,
    check_stderr,
    require,
    snapshot,
    way,
    ways,
)
from pages_law import check_page
from safetensors.torch import load_file

import eventvec as ev
from eventvec.models import model_files
from eventvec.tables.addresses import address_of

OURS = (
    "z.parquet", "wide.parquet", "zm.parquet", "zc.parquet", "p.parquet", "empty", "z.index", "shards", "fresh"
)  # fmt: skip
"""Files and folders that eventvec wrote, or that are empty: it may replace them without being asked."""
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
PAGES = ("evaluate", "audit", "drift", "report", "compare")
FOLDERS = r"(/[^./][^/]*)?"
"""A file in a folder, whose name is none of a lock or a draft."""


def play(rng: Random, folder: Path) -> str:
    """Play one case in an empty folder and return its outcome."""
    place = folder / "work"
    shutil.copytree(further_inputs.master(), place, symlinks=True)
    os.mkfifo(place / "fifo")
    os.chdir(place)
    act = rng.random()
    secret = f"pw{rng.getrandbits(48):012x}" if act > 0.88 else ""
    call = command_draws.draw(rng, valid=act < 0.26 and chance(rng, 0.7), secret=secret, ends=act < 0.2)
    call.arguments = [text.replace("\x00", "") for text in call.arguments]  # no shell can give a zero byte
    before = snapshot(folder)
    try:
        if act < 0.2:
            return _interrupt(rng, call, folder, before)
        if act < 0.26:
            with way("twice at a time"):
                return _twice(call, folder, before)
        with way("with a password") if secret else way("alone"):
            return _once(call, folder, before, fresh=chance(rng, 0.08))
    except (Broken, TimeoutError) as error:
        law, detail = (error.law, error.detail) if isinstance(error, Broken) else ("a command hangs", str(error))
        raise Broken(law, f"{' '.join(map(repr, call.arguments))}; {detail}"[:1200]) from error


def _start(call: Call, folder: Path, number: int = 0, fresh: bool = False) -> fork_server.Command:
    ways[call.command, "drawn"] += 1
    outputs = folder.parent / f"{folder.name}-{number}.stdout", folder.parent / f"{folder.name}-{number}.stderr"
    return fork_server.start(call.arguments, folder / "work", outputs, fresh)


def _run(call: Call, folder: Path, fresh: bool = False) -> Ended:
    """Return how a command ended, and note how long it took."""
    start = time.monotonic()
    ended = _start(call, folder, fresh=fresh).ended()
    key = call.command, fresh
    _seconds[key] = 0.7 * _seconds.get(key, 0) + 0.3 * (time.monotonic() - start) if key in _seconds else 1
    return ended


_seconds: dict[tuple[str, bool], float] = {}
"""The seconds that commands took lately."""


def _once(call: Call, folder: Path, before: dict[str, str], fresh: bool = False, valid: bool = True) -> str:
    """Run a command to its end and return the outcome."""
    ended = _run(call, folder, fresh)
    _check_ended(call, ended, folder, before)
    if ended.code not in (0, 3):
        text = " ".join(ended.stderr.split())[-400:]
        require(not (call.valid and valid), f"a valid {call.command} is refused", text)
        raise Refused(f"{call.command}: {text}")
    _check_output(call)
    ways[call.command, "accepted"] += 1
    return ACCEPTED


def _interrupt(rng: Random, call: Call, folder: Path, before: dict[str, str]) -> str:
    """Send a signal to a command while it runs, check what it leaves behind, and run it to its end."""
    fresh, number = chance(rng, 0.25), rng.choice(list(CODES))
    longest = _seconds.get((call.command, fresh), 3 if fresh or call.command == "demo" else 0.4)
    delay = rng.random() * longest
    running = _start(call, folder, fresh=fresh)
    time.sleep(delay)
    running.interrupt(number)
    ended = running.ended()
    was_ended = ended.code in (0, 1, 2, 3)
    if fresh and _before_the_package(ended, number):
        _check_secret(call, ended, folder, before)
    else:
        name = number.name
        require(was_ended or ended.code == CODES[number], f"{name} ends a command with code {ended.code}", ended.stderr)
        _check_ended(call, ended, folder, before)
        _check_begun(call)
    with way("interrupted" if ended.code == CODES[number] else "ended before the signal"):
        output = _value(call.arguments, "-o", "--out")
        # there may be no such entity any more, or the database that a store is of has changed by the output
        gone = "--forget" in call.arguments or (output and address_of(output) and "--store" in call.arguments)
        whole = "--labels" in call.arguments or call.command == "features"  # what appears at once is not written again
        can_repeat = call.valid and not gone and not (whole and "--out" in call.arguments)
        again = Call(call.command, _resumed(call.arguments), can_repeat, call.secret)
        return _once(again, folder, snapshot(folder)) if call.command != "demo" else ACCEPTED


def _before_the_package(ended: Ended, number: int) -> bool:
    """Return whether a signal ended Python itself, before the package had imported what handles it."""
    frames = re.findall(r'File "([^"]*)", line (\d+)', ended.stderr)
    package = Path(ev.__file__).parent
    modules = {Path(name).relative_to(package).as_posix() for name, _ in frames if Path(name).is_relative_to(package)}
    silent = ended.code == -number and not ended.stderr
    is_pythons = number == signal.SIGINT and "KeyboardInterrupt" in ended.stderr
    return silent or (is_pythons and modules <= {"__init__.py", "interrupts.py"})


def _resumed(arguments: list[str]) -> list[str]:
    """Return the arguments with which the same command goes on after an interruption."""
    if "--labels" in arguments:
        return arguments
    further = {"fit": "--resume", "tune": "--resume", "card": "--overwrite"}.get(arguments[0])
    further = "--resume" if arguments[0] == "compare" and "--out" in arguments else further
    return [*arguments, *([further] if further and further not in arguments else [])]


def _twice(call: Call, folder: Path, before: dict[str, str]) -> str:
    """Run a command in two processes at a time."""
    both = [process.ended() for process in [_start(call, folder, number) for number in range(2)]]
    ends = [f"{ended.code} {' '.join(ended.stderr.split())[-300:]}" for ended in both]
    for ended in both:
        _check_ended(call, ended, folder, before, another=True)
    accepted = [ended for ended in both if ended.code in (0, 3)]
    require(not call.valid or bool(accepted), f"both of two {call.command} at a time are refused", ends)
    if not accepted:
        raise Refused(f"{call.command}: {ends[0]}")
    _check_output(call)
    return ACCEPTED


def _check_ended(call: Call, ended: Ended, folder: Path, before: dict[str, str], another: bool = False) -> None:
    """Check how a command ended: its code, what it printed, and which files it changed.

    Args:
        call: The command.
        ended: How it ended.
        folder: The folder of the case.
        before: The files before it.
        another: Whether another process ran the same command.
    """
    if "Traceback (most recent call last)" in ended.stderr:
        raise Broken(*_traceback(ended.stderr))
    fails = call.command == "drift" and "--fail" in call.arguments
    require(
        ended.code in (0, 1, 2, *CODES.values(), *([3] if fails else [])),
        f"the exit code is {ended.code}",
        ended.stderr,
    )
    another_key = _value(call.arguments, "--key") not in (None, "id")  # then `id` is a field, and its values are shown
    shows_keys = another_key or any(
        text in (call.command, *call.arguments) for text in ("search", "describe", "--entity", "--forget")
    )
    shown = [key for key in workplace.KEYS if key in ended.stdout and not shows_keys]
    require(not shown, "standard output has a key", ended.stdout[:300])
    done = another or ended.code not in (1, 2)
    check_files(before, folder, _may_change(call.command, call.arguments, done))
    _check_secret(call, ended, folder, before)
    steps = r"^(?:\d/\d  .*| +\d+ s)$\n?" if call.command == "demo" else r"(?!)"  # the demonstration names what it does
    stderr = re.sub(steps, "", ended.stderr, flags=re.MULTILINE)
    if ended.code not in (0, 3):
        options = ("--forget", "--entity", *(["--key"] if call.command == "search" else []))
        typed = {text for first, text in pairwise(["", *call.arguments]) if first not in options}
        check_stderr(
            stderr,
            [key for key in workplace.KEYS if not any(key in text for text in typed)],
            usage=ended.code == 2,
        )
    else:
        lines = [line for line in stderr.split("\n") if line.strip() and not line.startswith("note: ")]
        require(not lines, "an accepted command writes to standard error what is no note", lines)


def _traceback(text: str) -> tuple[str, str]:
    """Return the type and the place of an unexpected exception, and its message."""
    frames = re.findall(r'File "([^"]*)", line (\d+)', text)
    ours = [f"{Path(name).name}:{line}" for name, line in frames if "eventvec" in name] or ["?"]
    names = re.findall(r"^([A-Za-z_.]+)(?::|$)", text, re.MULTILINE) or ["?"]
    return f"{names[-1]} at {' < '.join(ours[:-4:-1])}", text[-500:]


def _check_secret(call: Call, ended: Ended, folder: Path, before: dict[str, str]) -> None:
    """Check that a password is neither in what a command printed nor in a file that it wrote."""
    if not call.secret or "--title" in call.arguments:
        return
    for name in ("stdout", "stderr"):
        text: str = getattr(ended, name)
        require(call.secret not in text, f"a password is shown on {name}", text[-400:])
    for name, content in snapshot(folder).items():
        if before.get(name) != content and (folder / name).is_file():
            require(call.secret.encode() not in (folder / name).read_bytes(), "a password is in a file", name)
        require(call.secret not in name, "a password is in the name of a file", name)


def _value(arguments: list[str], *names: str) -> str | None:
    """Return the value of an option, the last one if it stands there twice."""
    values, rest = list[str](), iter(arguments)
    for text in rest:
        name, equals, value = text.partition("=")
        if name in names and (equals or (value := next(rest, ""))):  # what follows is its value, whatever it looks like
            values.append(value)
    return values[-1] if values else None


def _may_change(command: str, arguments: list[str], done: bool) -> list[str]:
    """Return regular expressions of the files that a command may write: those that its options name.

    A refused command may leave the store that it has read the events into, and records of a training that never began.
    """
    store = _value(arguments, "--store")
    allowed = [] if store is None else [_pattern(store) + FOLDERS]
    for records in (_value(arguments, "--mlflow"), _value(arguments, "--tensorboard")):
        allowed += [] if records is None else [_pattern(records) + "(/.*)?"]
    if not done:
        return allowed
    state, out = _value(arguments, "--state"), _value(arguments, "--out")
    for option in (("-o", "--out"), ("--save",), ("--page",)):
        allowed += _output(arguments, *option)
    index = _value(arguments, "--index")
    if command == "update" and state is not None:
        allowed.append(_pattern(state) + r"(-wal|-shm|/[^./][^/]*)?")
        allowed += [] if index is None else [_pattern(index)]
    if command == "card" and "--save" in arguments:
        allowed.append(_pattern(os.path.join(arguments[1], "README.md")))
    if command in ("fit", "features") and out is not None:
        resumed = out in ("run", "runlink", "coles")  # a finished run is only loaded
        allowed.append(_pattern(out) + (r"/metrics\.jsonl" if resumed else FOLDERS))
    if command in ("compare", "demo", "tune") and out is not None:
        allowed.append(_pattern(out) + FOLDERS + FOLDERS)
    return allowed


def _output(arguments: list[str], *names: str) -> list[str]:
    """Return regular expressions of the files of an output, unless it must be refused."""
    output = _value(arguments, *names)
    if output is None or output == "":
        return []
    try:
        address = address_of(output)
    except ev.EventvecError:
        return []
    if address is not None:
        return [] if address.path is None else [_pattern(str(address.path)) + r"(\.wal|/.*)?"]
    texts = [text for place, text in enumerate(arguments) if arguments[place - 1] not in names]
    inputs = [text for text in texts if not text.startswith("--")]  # flags are no files, also if an output is so called
    replaced = output in _files_before() and output not in OURS and "--overwrite" not in arguments
    in_run = any((parent / "model.json").exists() for parent in Path(output).resolve().parents)
    return (
        []
        if output in inputs or replaced or in_run
        else [_pattern(output) + (r"(/[^./][^/]*)*" if "--engine" in texts else "")]
    )


def _pattern(path: str) -> str:
    """Return a regular expression of a path in the working folder, and of the folders above it."""
    place = Path(os.path.relpath(os.path.realpath(path), os.path.realpath("..")))
    above = [re.escape(parent.as_posix()) for parent in place.parents if parent.name not in ("", "work")]
    return f"({'|'.join([*above, re.escape(place.as_posix())])})"


@cache
def _files_before() -> frozenset[str]:
    return frozenset(path.name for path in further_inputs.master().iterdir())


def _check_begun(call: Call) -> None:
    """Check that what an interrupted command wrote is absent, as it was, or whole."""
    out, output = _value(call.arguments, "--out"), _value(call.arguments, "-o", "--out")
    for folder in [] if out is None else [Path(out), *Path(out).glob("*/")]:
        if call.command in ("fit", "compare", "tune") and (folder / "model.json").is_file():
            finished = model_files.read_info(folder)["finished"]
            if not finished and (folder / "checkpoint.safetensors").exists():
                load_file(folder / "checkpoint.safetensors")
    if "--engine" in call.arguments or call.command in ("fit", "compare", "tune"):
        return  # the folder waits for the same command
    if call.valid and output is not None and address_of(output) is None and Path(output).exists():
        _check_output(call)


def _check_output(call: Call) -> None:
    """Check that what an accepted command wrote is whole, and that vectors are those that memory gives."""
    command, arguments = call.command, call.arguments
    if "--help" in arguments:
        return
    output, out = _value(arguments, "-o", "--out"), _value(arguments, "--out")
    output = _value(arguments, "--page") if command == "compare" else output
    if command in ("embed", "features", "update") and output is not None:
        z = ev.read_embeddings(output)
        check_finite(z)
        if call.valid and command != "features" and "--cutoffs" not in arguments:
            _check_vectors(z, arguments, output)
    elif command in ("predict", "surprise", "labels") and output is not None and address_of(output) is None:
        require(pq.ParquetFile(output).metadata.num_rows > 0, "the predictions are empty")
    elif command in PAGES and output is not None:
        check_page(Path(output).read_text("utf-8"))
    elif command == "export" and output is not None:
        import onnx

        onnx.checker.check_model(onnx.load(output), full_check=True)
    if command == "fit" and out is not None and "--dry-run" not in arguments:
        require(ev.load(out).info["finished"], "the model has not finished")


def _check_vectors(z: ev.Embeddings, arguments: list[str], output: str) -> None:
    """Check that the vectors of a valid command are those of `Model.embed` in memory."""
    run, events = arguments[1], arguments[2]
    expected = _expected(run, "hostile.parquet" if events == "hostile.parquet" else events == "later.parquet")
    if address_of(output) is not None and output.endswith("shop.db#z") and arguments[0] == "update":
        return  # the rows of other entities remain
    if events == "later.parquet":
        expected = expected[np.isin(expected.keys.to_pylist(), z.keys.to_pylist())]
    if "--engine" in arguments:  # entities are in the order of their shards
        z = z[np.argsort(z.keys.to_pylist())]
    check_same(z, expected, "a command and memory", 1e-4)


@cache
def _expected(run: str, events: str | bool) -> ev.Embeddings:
    """Return the vectors of the events, of the hostile ones, or, with True, after the later ones."""
    master = further_inputs.master()
    loaded = ev.load(master / run)
    if isinstance(events, str):
        return loaded.embed(master / events)
    tables = [pl.read_parquet(master / name) for name in ("events.parquet", "later.parquet")[: 1 + events]]
    return loaded.embed(pl.concat(tables))
