"""Names that packages import at their first use: what is imported when, and that type checkers are told the same."""

from __future__ import annotations

import ast
import importlib
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

import eventvec as ev

PACKAGE = Path(ev.__file__).parent


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a package with two names in a module, and two modules besides, one of which cannot be imported."""
    folder = tmp_path / "shop"
    folder.mkdir()
    call = 'import_at_first_use(__name__, {"shop.shelf": "tea Price"}, modules=("till",))'
    (folder / "__init__.py").write_text(f"from eventvec.first_use import import_at_first_use\n{call}\n")
    (folder / "shelf.py").write_text("tea = 3\nclass Price: ...\n")
    (folder / "till.py").write_text("coins = 7\n")
    (folder / "broken.py").write_text("import nothing_of_this_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("shop")
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


def test_a_module_is_imported_when_one_of_its_names_is_used(shop: ModuleType) -> None:
    assert "shop.shelf" not in sys.modules
    assert shop.tea == 3
    assert "shop.shelf" in sys.modules
    assert "shop.till" not in sys.modules
    assert vars(shop)["tea"] == 3  # found without a call from now on
    assert pickle.loads(pickle.dumps(shop.Price())).__class__ is shop.Price


def test_modules_are_attributes_too(shop: ModuleType) -> None:
    assert shop.till.coins == 7
    assert "shop.shelf" not in sys.modules


def test_all_names_are_listed_and_imported_by_a_star(shop: ModuleType) -> None:
    assert shop.__all__ == ["Price", "tea", "till"]
    assert dir(shop) == shop.__all__
    assert not {"shop.shelf", "shop.till"} & set(sys.modules)
    names: dict[str, object] = {}
    exec("from shop import *", names)
    assert {"Price", "tea", "till"} <= names.keys()


def test_what_is_absent_is_told_with_the_module_that_has_it(shop: ModuleType) -> None:
    with pytest.raises(AttributeError, match=r"^module 'shop' has no attribute 'coins'; it is shop\.till\.coins$"):
        _ = shop.coins
    for name in ("coffee", "_coins", "__wrapped__"):
        with pytest.raises(AttributeError, match=rf"^module 'shop' has no attribute '{name}'$"):
            getattr(shop, name)
    with pytest.raises(ImportError, match="cannot import name 'coffee'"):
        exec("from shop import coffee")


def test_an_error_of_a_module_is_not_hidden(shop: ModuleType) -> None:
    with pytest.raises(ModuleNotFoundError, match="nothing_of_this_name"):
        _ = shop.broken


def told(path: Path) -> tuple[dict[str, set[str]], dict[str, set[str]]] | None:
    """Return the names by module that type checkers see in a package, and those that it imports at their first use."""
    seen: dict[str, set[str]] = {}
    used: dict[str, set[str]] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for each in node.body:
                assert isinstance(each, ast.ImportFrom)
                assert all(alias.name == alias.asname for alias in each.names)  # or else it is not exported
                seen.setdefault(str(each.module), set()).update(alias.name for alias in each.names)
        if isinstance(node, ast.Expr) and "import_at_first_use" in ast.dump(node):
            assert isinstance(node.value, ast.Call)
            used = {module: set(names.split()) for module, names in ast.literal_eval(node.value.args[1]).items()}
            modules = {name for each in node.value.keywords for name in ast.literal_eval(each.value)}
            used |= {"eventvec": modules} if modules else {}
    return (seen, used) if used else None


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("__init__.py")), ids=lambda path: path.parent.name)
def test_type_checkers_are_told_what_a_package_imports_at_first_use(path: Path) -> None:
    names = told(path)
    assert names is None or names[0] == names[1]


def test_the_packages_with_such_names_are_found() -> None:
    late = [path.parent.name for path in PACKAGE.rglob("__init__.py") if told(path)]
    assert {"eventvec", "tables", "training", "models"} <= set(late)


def test_threads_that_use_parts_of_one_package_first_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that, one thread holds a part and waits for its package, which another one holds to import the part."""
    folder = tmp_path / "mall"
    (folder / "floor").mkdir(parents=True)
    call = 'import_at_first_use(__name__, {"mall.floor.left": "one", "mall.floor.right": "two"})'
    (folder / "__init__.py").write_text(f"from eventvec.first_use import import_at_first_use\n{call}\n")
    slowly = "import time\ntime.sleep(0.3)\n"
    (folder / "floor" / "__init__.py").write_text(f"{slowly}from mall.floor import right, left\n")
    (folder / "floor" / "left.py").write_text(f"{slowly}one = 1\n")
    (folder / "floor" / "right.py").write_text(f"{slowly}from mall.floor.left import one\n\ntwo = 2 * one\n")
    monkeypatch.syspath_prepend(tmp_path)
    mall = importlib.import_module("mall")
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda name: getattr(mall, name), ["one", "two"])) == [1, 2]
    for name in [name for name in sys.modules if name.partition(".")[0] == "mall"]:
        del sys.modules[name]
