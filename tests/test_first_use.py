"""Names that packages import at their first use: what is imported when."""

from __future__ import annotations

import builtins
import importlib
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from eventvec.first_use import at_first_use

LATER = "from eventvec.first_use import at_first_use\n\nwith at_first_use(__name__):\n    from {}\n"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a package with two names in a module, and two modules besides, one of which cannot be imported."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "__init__.py").write_text(LATER.format("shop.shelf import tea, Price\n    from shop import till"))
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


def test_names_are_absent_before_their_use_and_other_modules_import_as_ever(
    shop: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not {"tea", "Price", "till"} & vars(shop).keys()
    before = builtins.__import__
    monkeypatch.setitem(sys.modules, "package", ModuleType("package"))
    with at_first_use("package"):
        from shop.till import coins
    assert coins == 7  # this module imports, and not the package
    assert builtins.__import__ is before


def test_threads_that_use_parts_of_one_package_first_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that, one thread holds a part and waits for its package, which another one holds to import the part."""
    folder = tmp_path / "mall"
    (folder / "floor").mkdir(parents=True)
    names = "mall.floor.left import one\n    from mall.floor.right import two"
    (folder / "__init__.py").write_text(LATER.format(names))
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
