"""Build and check the source archive and the wheel, and run the wheel and the README's lines in an empty environment.

The wheel is built from the source archive; both stay in `dist`, to be published. ``twine check --strict`` reads their
metadata and the README. The source archive has all files that git knows, so that the tests can run in it; those of
links do. The Python and the commands of the README, and the page about a method of one's own, run with the core's
dependencies only, and print what is shown. ``python scripts/check_wheel.py demo`` runs exactly the README's commands
instead, those of the installation and the demo included, and prints the seconds of each. Both need the packages of the
extra `dev`. If TORCH_INDEX is set, torch is installed from that index.
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
import time
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIRED = ["eventvec/py.typed", "eventvec/data/flights.parquet", "eventvec/data/aircraft.parquet"]
LARGEST = 10e6  # bytes
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
IN_THE_WHEEL = (ROOT / "README.md", ROOT / "docs" / "how-to" / "your-own-method.md")
"""The pages that run here, with the core's dependencies; `tests/test_docs.py` runs the others."""
NOT_IN_SOURCE = {".gitattributes", ".gitignore", ".pre-commit-config.yaml"}


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Return the output of a command, with further variables of the environment; exit with its output if it fails."""
    text = shlex.join(map(str, command))
    print(f"$ {text}", flush=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment["OMP_NUM_THREADS"] = "1"  # as in `make test`: threads wait for one another on a busy machine
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is imported is compiled once, and nothing else
    environment |= variables
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode:
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


def install(wheel: Path, folder: Path) -> Path:
    """Return the `bin` folder of a new environment with the wheel and what it needs, at the versions of development."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    pip = (programs / "python", "-m", "pip", "install", "--quiet", "--no-compile", "-c", ROOT / "constraints.txt")
    if index := os.environ.get("TORCH_INDEX"):
        run(*pip, "torch", "--index-url", index, cwd=programs)
    run(*pip, wheel, cwd=programs)
    return programs


def use(programs: Path, folder: Path) -> None:
    """Import the installed package outside the source folder, and let `doctor` look at it."""
    location = run(programs / "python", "-c", "import eventvec; print(eventvec.__file__)", cwd=folder).strip()
    if not location.startswith(str(programs.parent)):
        raise SystemExit("the imported package is not that of the installed wheel")
    json.loads(run(programs / "eventvec", "doctor", "--json", cwd=folder))


def blocks(document: str, *languages: str) -> list[str]:
    """Return the fenced code blocks in one of the languages."""
    fenced = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", document, flags=re.MULTILINE | re.DOTALL)
    return [body for language, body in fenced if language in languages]


def without_numbers(printed: str) -> str:
    """Return a text with `#` for every word with a digit, and a space for all white space between words."""
    return re.sub(r"[+−-]?\w*\d[\w.,]*", "#", " ".join(printed.split()))


def not_printed(shown: str, printed: str) -> list[str]:
    """Return the parts of a text, between `…`, that do not occur in the output in this order, whatever the numbers."""
    output, missing, start = without_numbers(printed), [], 0
    for part in (without_numbers(part) for part in shown.split("…")):
        place = output.find(part, start)
        if place < 0:
            missing.append(part)
        else:
            start = place + len(part)
    return missing


def run_page(page: Path, programs: Path, folder: Path) -> None:
    """Run the Python of a page in a new folder, and then its commands but for the demo, on the files that it wrote."""
    folder.mkdir()
    document = page.read_text()
    (folder / "page.py").write_text("\n".join(blocks(document, "python")))
    printed = run(programs / "python", "page.py", cwd=folder)
    if missing := [part for block in blocks(document, "text") for part in not_printed(block, printed)]:
        raise SystemExit(f"{page} shows {missing}, and what is printed is:\n{printed}")
    for line in "".join(blocks(document, "bash")).splitlines():
        if line.startswith("eventvec ") and not line.startswith("eventvec demo"):
            run(programs / "eventvec", *shlex.split(line, comments=True)[1:], cwd=folder)


def run_readme(wheel: Path, folder: Path) -> None:
    """Run the commands of the README's installation with the wheel, then its Python, and then its other commands."""
    venv.create(folder / "empty", with_pip=True)
    work, readme = folder / "readme", (ROOT / "README.md").read_text()
    work.mkdir()
    (work / "page.py").write_text("\n".join(blocks(readme, "python")))
    lines = "".join(blocks(readme, "bash")).splitlines()
    commands = [shlex.split(line, comments=True) for line in lines if line.strip()]
    installation = [[*words, "-c", str(ROOT / "constraints.txt")] for words in commands if words[0] == "pip"]
    others = [words for words in commands if words[0] != "pip"]
    for words in [*installation, ["python", "page.py"], *others]:
        named = {"eventvec[demo]": f"{wheel}[demo]", CPU_INDEX: os.environ.get("TORCH_INDEX", CPU_INDEX)}
        words = [named.get(word, word) for word in words]
        start = time.perf_counter()
        run(folder / "empty" / "bin" / words[0], *words[1:], cwd=work, OMP_NUM_THREADS=str(os.cpu_count()))
        print(f"{time.perf_counter() - start:.0f} s")
    size = sum(path.lstat().st_size for path in (folder / "empty").rglob("*"))
    print(f"the environment has {size / 1e9:.1f} GB")


def main(what: str = "core") -> None:
    """Check the source archive and the wheel."""
    if what not in ("core", "demo"):
        raise SystemExit(f"the argument must be demo or absent, got {what}")
    with tempfile.TemporaryDirectory(prefix="eventvec-wheel-") as name:
        folder = Path(name)
        source, wheel = build(ROOT / "dist")
        if what == "demo":
            run_readme(wheel, folder)
            return
        if problems := source_contents(source) + contents(wheel):
            raise SystemExit("\n".join(problems))
        for archive in (source, wheel):
            print(f"{archive.name}: {archive.stat().st_size:,} bytes")
        with ThreadPoolExecutor() as side_by_side:
            installed = side_by_side.submit(install, wheel, folder / "empty")
            run_source(source, folder)
            programs = installed.result()
            use(programs, folder)
            pages = [side_by_side.submit(run_page, page, programs, folder / page.stem) for page in IN_THE_WHEEL]
            for page in pages:
                page.result()
    print("both archives are complete")
    print("the wheel installs, imports and runs, and so do the lines of the README and those of a method of one's own")


if __name__ == "__main__":
    main(*sys.argv[1:])
