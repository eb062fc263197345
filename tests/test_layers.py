"""Imports go one way, and nothing heavy is imported before it is used, neither by the package nor by the commands."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import eventvec as ev
import fits
from eventvec.cli.arguments import HEADINGS

PACKAGE = Path(__file__).parents[1] / "src" / "eventvec"
ORDER = (
    ("credentials", "first_use", "part_names", "torchrun"),
    ("errors", "interrupts"),
    ("files", "options", "quantities", "sequences"),
    ("schema", "toml_tables"),
    ("dataset", "distributed", "precision", "threads"),
    ("views",),
    ("losses", "scan"),
    ("encoders",),
    ("methods",),
    ("tables",),
    ("describing", "labels"),
    ("embedding", "statistics"),
    ("answers",),
    ("learners",),
    ("blocks",),
    ("config", "examples", "parts"),
    ("models",),
    ("evaluation",),
    ("training",),
    ("exporting", "searching", "updating"),
    ("attribution", "engines", "predicting"),
    ("reporting", "serving"),
    ("auditing", "shift"),
    ("comparing",),
    ("tuning",),
    ("datasets",),
    ("",),  # the package itself: what it shows, only the command line may use
    ("cli",),
    ("__main__",),
)
RANK = {part: rank for rank, parts in enumerate(ORDER) for part in parts}
LAZY = {
    *("faiss", "sklearn", "lightgbm", "matplotlib", "jinja2", "openTSNE", "pandas"),
    *("duckdb", "deltalake", "adbc_driver_postgresql", "adbc_driver_manager"),
    *("transformers", "peft", "tokenizers", "sentence_transformers", "bitsandbytes"),
    *("tensorboard", "mlflow", "onnx", "optuna", "ray", "pyspark", "joblib"),
    *("fastapi", "starlette", "uvicorn", "prometheus_client"),
}
"""What is imported where it is used, and never by a module when it is imported."""
COMPUTING = {"torch", "polars", "pyarrow", "safetensors", "scipy"}
"""What commands and public names import that compute, and no others."""


@cache
def modules(package: Path) -> dict[str, ast.Module]:
    """Return the syntax tree of each module, by its dotted name below the package; the package's own is ''."""
    trees = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = ast.parse(path.read_text())
    return trees


@cache
def imported(tree: ast.Module, names: frozenset[str]) -> set[str]:
    """Return the modules of the package that one module imports anywhere, in functions too."""
    targets = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            dotted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            dotted = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in dotted:
            if name.split(".")[0] == "eventvec":
                below = name.partition(".")[2]
                targets.add(below if below in names else below.rpartition(".")[0])
    return targets


def wrong_way(package: Path) -> list[str]:
    """Return each import against the order, and each module that the order does not know."""
    trees = modules(package)
    names = frozenset(trees)
    wrong = [f"{name} is in no rank" for name in trees if name and name.split(".")[0] not in RANK]
    for name, tree in trees.items():
        part = name.split(".")[0]
        for target in imported(tree, names) if part in RANK else ():
            if RANK.get(target.split(".")[0], len(ORDER)) > RANK[part]:
                wrong.append(f"{name or 'eventvec itself'} imports {target or 'eventvec itself'}")
    return wrong


def cycle(package: Path) -> list[str]:
    """Return modules that import one another in a cycle, or folders that do; empty if there are none."""
    trees = modules(package)
    files = {name: imported(tree, frozenset(trees)) - {name} for name, tree in trees.items() if name}
    parts: dict[str, set[str]] = {}
    for name, targets in files.items():
        part = name.split(".")[0]
        parts.setdefault(part, set()).update({target.split(".")[0] for target in targets} - {part})
    try:
        for graph in (files, parts):
            TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def at_import(nodes: list[ast.stmt]) -> Iterator[str]:
    """Yield the name of each outside package that a module imports when it is imported."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from at_import(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for block in ("body", "orelse", "finalbody"):
                yield from at_import(getattr(node, block, []))
            for handler in getattr(node, "handlers", []):
                yield from at_import(handler.body)


def test_imports_go_one_way() -> None:
    assert wrong_way(PACKAGE) == []


def test_no_modules_and_no_folders_import_one_another() -> None:
    assert cycle(PACKAGE) == []


def test_heavy_packages_are_imported_where_they_are_used() -> None:
    eager = {name: LAZY & set(at_import(tree.body)) for name, tree in modules(PACKAGE).items()}
    assert {name: packages for name, packages in eager.items() if packages} == {
        "predicting.event_estimator": {"sklearn"},
        "predicting.event_estimators": {"sklearn"},
        "predicting.vectorizer": {"sklearn"},
    }


def imported_by(statements: str, *packages: str) -> set[str]:
    """Return which of some packages a new process has imported after some statements."""
    code = f"import sys\n{statements}\nprint(*({set(packages)} & set(sys.modules)), file=sys.__stdout__)"
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(ended.stdout.split())


def test_the_package_imports_nothing_heavy_before_a_name_of_it_is_used() -> None:
    light = "import eventvec, eventvec.cli; dir(eventvec)\nfrom eventvec import ConfigError, FitOptions, Schema"
    assert imported_by(light, *LAZY, *COMPUTING, "numpy") == set()
    assert imported_by("from eventvec import fit", *LAZY, *COMPUTING) == {"torch", "polars", "pyarrow"}


CALLED = """
import contextlib, functools, io
import typer.main
from eventvec.cli import main
typer.main.get_command = functools.cache(typer.main.get_command)  # else each call builds all commands
for code, calls in {calls!r}.items():
    for arguments in calls:
        sys.argv = ["eventvec", *arguments]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                main()
            except SystemExit as end:
                assert end.code == code, (arguments, end.code)
"""
COMMANDS = [name for names in HEADINGS.values() for name in names]
WRONG = (
    *(["nonsense"], ["--wrong"], ["postgresql://a:b@c/d"], *([name, "--wrong"] for name in COMMANDS)),
    *(["embed"], ["evaluate", "z.parquet", "labels.parquet"], ["search", "z.parquet"], ["fit", "--set", "epochs=3"]),
    *(["fit"], ["fit", "--events", "e.parquet"], ["fit", "--events", ""], ["fit", "absent.toml", "--out", "run"]),
    *(["update", "run", "--state", "s.db"], ["features", "e.parquet", "-o", "f.parquet", "--parts", ""]),
)
"""Calls that are wrong whatever the files hold."""


def test_help_and_wrong_calls_import_nothing_that_computes() -> None:
    helped = [["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)]
    assert imported_by(CALLED.format(calls={0: helped, 2: WRONG}), *LAZY, *COMPUTING, "numpy") == set()


def test_the_card_of_a_run_folder_imports_nothing_that_computes(tmp_path: Path) -> None:
    ev.fit(fits.dataset(), method="ocp", epochs=1, out=tmp_path / "run")
    assert imported_by(CALLED.format(calls={0: [["card", str(tmp_path / "run")]]}), *LAZY, *COMPUTING) == set()


def test_doctor_shows_what_is_installed_before_it_imports_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; sys.argv = ['eventvec', 'doctor']; import eventvec.__main__"
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "version of eventvec" in ended.stdout
    assert "extra serve" in ended.stdout
    assert "import of torch halted" in ended.stderr


# The checks themselves, on small packages that break one rule each


def package(folder: Path, **files: str) -> Path:
    for name, text in {"__init__": "", **files}.items():
        path = folder / f"{name.replace('__in__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"losses": "from eventvec.cli import main", "cli": ""}, ["losses imports cli"]),
        ({"losses": "def f():\n    import eventvec.methods", "methods": ""}, ["losses imports methods"]),
        ({"losses": "from eventvec import read"}, ["losses imports eventvec itself"]),
        ({"losses": "from eventvec import cli", "cli": ""}, ["losses imports cli"]),
        ({"__init__": "from eventvec.cli import main", "cli": "import eventvec"}, ["eventvec itself imports cli"]),
        ({"newcomer": ""}, ["newcomer is in no rank"]),
        ({"losses": "from eventvec.schema import Schema", "schema": ""}, []),
        ({"encoders__in__gru": "from eventvec.training import fit", "training": ""}, ["encoders.gru imports training"]),
    ],
)
def test_an_import_against_the_order_is_found(tmp_path: Path, files: dict[str, str], expected: list[str]) -> None:
    assert wrong_way(package(tmp_path, **files)) == expected


def test_a_cycle_is_found(tmp_path: Path) -> None:
    cyclic = {"training": "from eventvec.embedding import embed", "embedding": "from eventvec.training import fit"}
    assert set(cycle(package(tmp_path / "modules", **cyclic))) == {"training", "embedding"}
    folders = {
        "evaluation__in__a": "from eventvec import reporting",
        "reporting": "from eventvec.evaluation import b",
        "evaluation__in__b": "",
    }
    assert set(cycle(package(tmp_path / "folders", **folders))) == {"evaluation", "reporting"}


def test_an_eager_import_is_found() -> None:
    eager = "try:\n    import sklearn.linear_model\nexcept ImportError:\n    from lightgbm import train"
    lazy = "if TYPE_CHECKING:\n    import pandas\ndef f():\n    import matplotlib"
    assert set(at_import(ast.parse(eager).body)) == {"sklearn", "lightgbm"}
    assert set(at_import(ast.parse(lazy).body)) == set()
