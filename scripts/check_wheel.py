"""Build and check the source archive and the wheel, and run the wheel and the README's lines in an empty environment.

The wheel is built from the source archive; both stay in `dist`, to be published. ``twine check --strict`` reads their
metadata and the README. The source archive has all files that git knows, so that the tests can run in it; those of
links do. The command line and the page about a method of one's own run beside the core's dependencies only, and the
lines of the README beside those of the extra `demo`. ``python scripts/check_wheel.py`` needs the packages of the extra
`dev`. If TORCH_INDEX is set, torch is installed from that index.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIRED = ["eventvec/py.typed", "eventvec/data/flights.parquet", "eventvec/data/aircraft.parquet"]
LARGEST = 10e6  # bytes
NOT_IN_SOURCE = {".gitattributes", ".gitignore", ".pre-commit-config.yaml"}
FLIGHTS = "from eventvec import datasets; print(repr(datasets.flights()[0]))"


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Return the output of a command, with further variables of the environment; exit with its output if it fails."""
    print("$", *command, flush=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment |= variables
    environment["OMP_NUM_THREADS"] = "1"  # as in `make test`: threads wait for one another on a busy machine
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode:
        text = shlex.join(map(str, command))
        raise SystemExit(f"{done.stdout}\n{done.stderr}\nfailed with exit code {done.returncode}: {text}")
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """Return the paths of the source archive and of the wheel, which replace all that is in a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, cwd=ROOT)
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", source, wheel, cwd=folder)
    return source, wheel


def source_contents(source: Path) -> list[str]:
    """Return the files that git knows but the source archive lacks, one sentence each; outside git, nothing."""
    if not (ROOT / ".git").exists():
        return []
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = set(run("git", "ls-files", cwd=ROOT).splitlines()) - NOT_IN_SOURCE
    return [f"{name} is not in the source archive" for name in sorted(tracked - names) if (ROOT / name).exists()]


def run_source(source: Path, folder: Path) -> None:
    """Run the tests of links and of the navigation, which read every document, in the unpacked source archive."""
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / source.name.removesuffix(".tar.gz")
    paths = os.pathsep.join([str(unpacked / "src"), str(unpacked)])
    pytest = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/test_docs.py")
    run(*pytest, "-k", "links or navigation", cwd=unpacked, PYTHONPATH=paths)


def contents(wheel: Path) -> list[str]:
    """Return the problems with the files in the wheel, one sentence each."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    problems = [f"{name} is not in the wheel" for name in REQUIRED if name not in names]
    problems += [f"no licence in {wheel.name}"] * (not any(name.endswith("licenses/LICENSE") for name in names))
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    problems += [f"{name} is not in the wheel" for name in sorted(modules - set(names))]
    inside = ("eventvec/", f"eventvec-{wheel.name.split('-')[1]}.dist-info/")
    problems += [f"{name} does not belong in the wheel" for name in names if not name.startswith(inside)]
    problems += [f"{wheel.name} has {wheel.stat().st_size:,} bytes"] * (wheel.stat().st_size > LARGEST)
    return problems


def install(programs: Path, *packages: str | Path) -> None:
    """Install packages, at the versions of development, into the environment whose `bin` folder is given."""
    pip = (programs / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt")
    run(*pip, *packages, cwd=programs)


def empty_environment(folder: Path) -> Path:
    """Return the `bin` folder of a new environment that has torch at most."""
    venv.create(folder, with_pip=True)
    if index := os.environ.get("TORCH_INDEX"):
        install(folder / "bin", "torch", "--index-url", index)
    return folder / "bin"


def use(programs: Path, folder: Path) -> None:
    """Import the installed package, print its versions, and train and embed on a table, outside the source folder."""
    location = run(programs / "python", "-c", "import eventvec; print(eventvec.__file__)", cwd=folder).strip()
    if not location.startswith(str(programs.parent)):
        raise SystemExit("the imported package is not that of the installed wheel")
    print(run(programs / "python", "-c", FLIGHTS, cwd=folder).strip())
    command = programs / "eventvec"
    json.loads(run(command, "doctor", "--json", cwd=folder))
    run(command, "demo", "--help", cwd=folder)
    events = Path(location).parent / "data" / "flights.parquet"
    table = ("--events", events, "--key", "tailnum", "--time", "time", "--categorical", "origin,dest")
    run(command, "fit", *table, "--time-budget", "5s", "--out", folder / "run", cwd=folder)
    run(command, "embed", folder / "run", events, "-o", folder / "z.parquet", cwd=folder)


def run_page(page: Path, programs: Path, folder: Path) -> None:
    """Run the Python of a page in a new folder."""
    lines = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    folder.mkdir()
    (folder / "page.py").write_text("\n".join(lines))
    run(programs / "python", folder / "page.py", cwd=folder)


def main() -> None:
    """Check the source archive and the wheel."""
    with tempfile.TemporaryDirectory(prefix="eventvec-wheel-") as name:
        folder = Path(name)
        source, wheel = build(ROOT / "dist")
        if problems := source_contents(source) + contents(wheel):
            raise SystemExit("\n".join(problems))
        for archive in (source, wheel):
            print(f"{archive.name}: {archive.stat().st_size:,} bytes")
        run_source(source, folder)
        programs = empty_environment(folder / "empty")
        install(programs, wheel)
        use(programs, folder)
        run_page(ROOT / "docs" / "how-to" / "your-own-method.md", programs, folder / "own")
        install(programs, f"{wheel}[demo]")
        run_page(ROOT / "README.md", programs, folder / "readme")
    print("both archives are complete")
    print("the wheel installs, imports and runs, and so do the lines of the README and those of a method of one's own")


if __name__ == "__main__":
    main()
