"""Where modules and functions of POSIX are missing, as on Windows, the package is imported, trains and keeps files."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path

import pytest

import processes

WINDOWS = """
import os, signal, sys

POSIX = {
    os: "fork forkpty getuid geteuid getgid getpgid setsid sysconf uname statvfs chown mkfifo nice posix_spawn "
        "sched_getaffinity getloadavg killpg O_NOFOLLOW O_DIRECTORY O_CLOEXEC pread pwrite register_at_fork",
    signal: "SIGALRM SIGHUP SIGKILL SIGCHLD SIGPIPE SIGUSR1 SIGUSR2 setitimer alarm pthread_sigmask sigwait",
}
for module, names in POSIX.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty"):
    sys.modules[name] = None
sys.platform = "win32"
sys.argv = ["eventvec"]
"""
"""What a program on Windows lacks, after other packages were imported, because these have code for this system."""
LIBRARIES = (
    *("asyncio", "concurrent.futures.process", "multiprocessing.resource_tracker", "subprocess", "sqlite3", "shutil"),
    *("numpy", "torch", "torch._dynamo", "torch.optim", "polars", "pyarrow.parquet", "pyarrow.dataset"),
    *("safetensors.torch", "sklearn.linear_model", "sklearn.model_selection", "joblib", "pydantic", "tomli_w"),
    *("typer.testing", "rich.progress", "rich.table", "rich.console"),
)
EVERY_MODULE = """
import importlib, pkgutil
import eventvec
for found in pkgutil.walk_packages(eventvec.__path__, "eventvec."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
"""
COMMANDS = """
from typer.testing import CliRunner
from eventvec.cli import app
for words in (["--help"], ["fit", "--help"], ["doctor"]):
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, (words, result.output)
print(result.output)
"""
FILES = """
import numpy as np
import polars as pl
import eventvec as ev
events = pl.DataFrame({"id": [i % 8 for i in range(160)], "t": range(160), "code": list("abcb" * 40)})
data = ev.read(events, key="id", time="t", categorical=["code"], numeric=[])
run = ev.fit(data, method="coles", epochs=1, dim=8, out="run")
ev.write("z.parquet", run.embed(data))
first = ev.update(run, events[:80], "state.db")
last = ev.update(ev.load("run"), events[80:], "state.db")
assert np.allclose(last.embeddings.values, ev.read_embeddings("z.parquet").values, atol=1e-4)
ev.Index.of(last.embeddings).save("cards.index")
print(ev.search(ev.read_index("cards.index"), key=3, count=2).rows)
"""

ABSENT = "import fcntl"
CODES = (EVERY_MODULE, COMMANDS, FILES, ABSENT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what each program printed where this system looks like Windows, and with its files."""
    folder = tmp_path_factory.mktemp("windows")
    assert processes.exit_code(run_each, folder) == 0
    return folder


def run_each(folder: Path) -> None:
    """Run the programs in processes of their own, which need not import the libraries again, but import eventvec."""
    for name in LIBRARIES:
        importlib.import_module(name)
    for name in [name for name in sys.modules if name.partition(".")[0] == "eventvec"]:
        del sys.modules[name]
    for place, code in enumerate(CODES):
        child, end = os.fork(), os._exit
        if not child:
            for stream in ("stdout", "stderr"):
                text = open(folder / f"{place}.{stream}", "w")  # noqa: SIM115 (until the process ends)
                os.dup2(text.fileno(), getattr(sys, stream).fileno())
            (folder / str(place)).mkdir()
            os.chdir(folder / str(place))
            try:
                exec(WINDOWS + code, {})
            except BaseException:
                traceback.print_exc()
            else:
                print("whole", flush=True)  # noqa: T201
            end(0)
        os.waitpid(child, 0)


def printed(folder: Path, code: str) -> str:
    """Return what a program printed, which has come to its end."""
    place = CODES.index(code)
    out, error = ((folder / f"{place}.{name}").read_text() for name in ("stdout", "stderr"))
    assert out.endswith("whole\n"), error
    return out


def test_every_module_is_imported(folder: Path) -> None:
    printed(folder, EVERY_MODULE)


def test_help_and_doctor_run(folder: Path) -> None:
    assert "a model trains here" in printed(folder, COMMANDS)


def test_files_are_written_read_and_continued(folder: Path) -> None:
    assert "similarity" in printed(folder, FILES)
    files = list((folder / str(CODES.index(FILES))).iterdir())
    assert "z.parquet" in [path.name for path in files]
    assert [path.name for path in files if path.name.endswith(".draft")] == []


def test_a_module_of_posix_is_missing(folder: Path) -> None:
    with pytest.raises(AssertionError, match="fcntl"):
        printed(folder, ABSENT)
