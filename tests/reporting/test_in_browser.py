"""Pages in headless Chromium: clicked through, on a phone and a desktop, light and dark, and without JavaScript."""

from __future__ import annotations

import io
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev
from commands import answer, customer_labels, purchases
from eventvec.cli import demo
from eventvec.reporting import run_report
from eventvec.tables import Embeddings
from pages import HOSTILE

pytestmark = pytest.mark.slow
WIDTHS = ("wide", "narrow")
SIZES = {"phone": (375, 760), "desktop": (1280, 900)}
Open = Callable[..., Any]


@pytest.fixture
def browse(tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens a page; at the end, no page has said anything on its console or loaded anything."""
    selenium = pytest.importorskip("selenium.webdriver")
    found = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    if None in found.values():
        pytest.skip("there is no Chromium with its driver on this machine; `make debian` installs them")
    drivers = []

    def browse(file: Path, size: str = "desktop", scheme: str = "light", scripts: bool = True) -> Any:
        options = selenium.ChromeOptions()
        options.binary_location = found["chromium"]
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        if not scripts:
            options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
        driver = selenium.Chrome(options=options, service=selenium.ChromeService(found["chromedriver"]))
        drivers.append(driver)
        width, height = SIZES[size]
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
        driver.get(file.as_uri())
        driver.implicitly_wait(3)  # the data are unpacked first
        return driver

    yield browse
    for driver in drivers:
        said, loaded = driver.get_log("browser"), requests(driver)
        driver.quit()
        assert said == []
        assert loaded[0].startswith("file:")
        assert {address.partition(":")[0] for address in loaded[1:]} <= {"blob", "data"}


def requests(driver: Any) -> list[str]:
    """Return the addresses that a page has asked for, its own first."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [params["request"]["url"] for params in sent if not params["request"]["url"].startswith("chrome")]


@pytest.fixture(scope="module")
def demo_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "demo-run"
    return demo.run(out, rows=slice(0, None, 5), models=["knn"], epochs=1).page


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the pages of an evaluation and a run; one customer has a hostile name."""
    path = tmp_path_factory.mktemp("files")
    customers = [HOSTILE, *(f"c{i:02}" for i in range(59))]
    purchases(customers, 12).write_parquet(path / "events.parquet")
    customer_labels(customers).write_parquet(path / "people.parquet")
    data = ev.read(path / "events.parquet", key="customer", time="when")
    run = ev.fit(data, method={"encoder": {"dim": 8}}, epochs=2, out=path / "run")
    ev.write(path / "z.parquet", run.embed(data))
    labels = (path / "people.parquet", "--label", "likes", "--models", "knn", "--fractions", "1,0.5")
    answer("evaluate", path / "z.parquet", *labels, "--events", path / "events.parquet", "-o", path / "evaluation.html")
    drivers = ev.influence(run, data, path / "people.parquet", "likes")
    ev.report(run, data, labels=path / "people.parquet", drivers=drivers).write(path / "run.html")
    return path


def one(driver: Any, selector: str) -> Any:
    return driver.find_element("css selector", selector)


def picture(driver: Any) -> str:
    """Return the pixels of the map, after the next frame."""
    script = """
        const done = arguments[0];
        requestAnimationFrame(() => requestAnimationFrame(() => done(document.getElementById("map").toDataURL())));
    """
    text: str = driver.execute_async_script(script)
    return text


def choose(driver: Any, selector: str, text: str) -> None:
    from selenium.webdriver.support.select import Select

    Select(one(driver, selector)).select_by_visible_text(text)


def drag(driver: Any, *corners: tuple[float, float]) -> None:
    """Drag over the map along corners, which are shares of its width and height from its centre."""
    from selenium.webdriver import ActionChains

    canvas = one(driver, "#map")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    size = canvas.size
    pixels = [(round(x * size["width"]), round(y * size["height"])) for x, y in corners]
    chain = ActionChains(driver, duration=50).move_to_element_with_offset(canvas, *pixels[0]).click_and_hold()
    for corner in pixels[1:]:
        chain.move_to_element_with_offset(canvas, *corner)
    chain.release().perform()


def click(driver: Any, selector: str) -> None:
    element = one(driver, selector)
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


def exported(driver: Any, folder: Path) -> list[str]:
    """Return the lines of the file that the button for export writes."""
    click(driver, "#export")
    file = folder / "selected.csv"
    for _ in range(50):
        if file.exists() and file.stat().st_size:
            break
        time.sleep(0.1)
    lines = file.read_text().splitlines()
    file.unlink()
    return lines


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["demo", "evaluation", "run"])
def test_each_page_fits_each_screen(
    browse: Open, demo_page: Path, files: Path, name: str, size: str, scheme: str
) -> None:
    driver = browse(demo_page if name == "demo" else files / f"{name}.html", size, scheme)
    width = driver.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert width == [SIZES[size][0]] * 2
    back = driver.execute_script("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(back) < 200) == (scheme == "dark")
    shown = {
        name: [e.is_displayed() for e in driver.find_elements("css selector", f"section .{name}")] for name in WIDTHS
    }
    assert shown["wide"]
    assert all(shown["wide"]) == (size == "desktop")
    assert all(shown["narrow"]) == (size == "phone")
    ink = driver.execute_script(
        "return getComputedStyle(document.querySelector('figure text')).fill.match(/\\d+/g).map(Number)"
    )
    assert (sum(ink) > 400) == (scheme == "dark")
    assert one(driver, ".verdict").text


def test_the_map_is_coloured_searched_selected_and_exported(browse: Open, demo_page: Path, tmp_path: Path) -> None:
    driver = browse(demo_page)
    n = 809  # every fifth of 4,043
    pictures = [picture(driver)]
    for colour in ("number of seats", "airline", "last event", "built in 2002 or later"):
        choose(driver, "#colour", colour)
        pictures.append(picture(driver))
    assert len(set(pictures)) == 4  # the last equals the first
    one(driver, "#search").send_keys("N328AA")
    click(driver, "#found button")
    assert one(driver, "#chosen").text.startswith("N328AA · built in 2002 or later: no")
    assert one(driver, "#neighbour-table .example button").text == "N328AA"
    drag(driver, (0, 0), (0.001, 0.001))  # a click, without moving the map
    assert one(driver, "#tip strong").text == one(driver, "#chosen strong").text
    click(driver, "[data-mode=box]")
    drag(driver, (-0.02, -0.02), (0.02, 0.02))
    lines = exported(driver, tmp_path)
    assert lines[0] == "tailnum"
    assert "N328AA" in lines
    assert one(driver, "#selected").text == f"{len(lines) - 1} of {n} selected."
    click(driver, "#zoom-all")
    drag(driver, (-0.49, -0.49), (0.49, 0.49))
    assert one(driver, "#selected").text == f"{n} of {n} selected."
    click(driver, "[data-mode=lasso]")
    drag(driver, (-0.49, -0.49), (0.49, -0.49), (0, 0.3), (-0.49, -0.49))
    part = int(one(driver, "#selected").text.split()[0])
    assert 0 < part < n
    click(driver, "#clear")
    assert not one(driver, "#export").is_enabled()
    click(driver, "#legend button")
    assert f"({len(exported(driver, tmp_path)) - 1:,})" in one(driver, "#legend button").text


def test_the_map_moves_by_mouse_wheel_and_keys(browse: Open, demo_page: Path) -> None:
    from selenium.webdriver import ActionChains, Keys
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    driver = browse(demo_page)
    canvas, pictures = one(driver, "#map"), [picture(driver)]
    drag(driver, (0, 0), (0.2, 0.1))
    pictures.append(picture(driver))
    driver.execute_script("arguments[0].focus()", canvas)
    for key in ("+", Keys.ARROW_LEFT, Keys.ARROW_UP, "-"):
        canvas.send_keys(key)
        pictures.append(picture(driver))
    ActionChains(driver).scroll_from_origin(ScrollOrigin.from_element(canvas), 0, -300).perform()
    pictures.append(picture(driver))
    assert len(set(pictures)) == len(pictures)
    canvas.send_keys("0")
    assert picture(driver) == pictures[0]


def test_neighbours_and_their_histories_are_shown(browse: Open, demo_page: Path) -> None:
    from selenium.webdriver import ActionChains

    driver = browse(demo_page)
    assert len(driver.find_elements("css selector", "#neighbour-table .history svg")) == 9
    told = [cell.text for cell in driver.find_elements("css selector", "#neighbour-table .words")]
    rows = driver.execute_script(
        "return Array.from(document.querySelectorAll('table td')).map(cell => cell.textContent)"
    )
    assert 4 <= len(told) <= 9
    assert told[0] in rows[rows.index(told[0]) + 1 :]  # the folded table has the same
    assert all(text.startswith("Both: ") == bool(place) and text.endswith(".") for place, text in enumerate(told))
    first = one(driver, "#neighbour-table .example button").text
    click(driver, "#neighbour-table tbody tr:nth-child(3) button")
    second = one(driver, "#neighbour-table .example button").text
    assert second != first
    assert second == one(driver, "#chosen strong").text
    names = [option.text for option in driver.find_elements("css selector", "#event-colour option")]
    legends = set()
    for name in names:
        choose(driver, "#event-colour", name)
        legends.add(one(driver, "#event-legend").text)
    assert len(legends) == len(names) > 2
    history = one(driver, "#neighbour-table .history svg")
    ActionChains(driver).move_to_element(history).perform()
    assert one(driver, "#event").text.startswith(f"{second} · 2013-")
    driver.execute_script(
        "const chooser = document.getElementById('example'); chooser.value = '4';"
        "chooser.dispatchEvent(new Event('change'))"
    )
    assert one(driver, "#neighbour-table .example button").text not in (first, second)


def test_a_hostile_key_is_text(browse: Open, files: Path, tmp_path: Path) -> None:
    driver = browse(files / "run.html")
    one(driver, "#search").send_keys("img")
    click(driver, "#found button")
    assert one(driver, "#chosen strong").text == HOSTILE
    assert driver.execute_script("return document.images.length") == 0
    click(driver, "[data-mode=box]")
    click(driver, "#zoom-all")
    drag(driver, (-0.49, -0.49), (0.49, 0.49))
    table = pl.read_csv(io.StringIO("\n".join(exported(driver, tmp_path))))
    assert HOSTILE in table["customer"].to_list()
    assert len(table) == 60


@pytest.mark.parametrize("name", ["demo", "evaluation", "run"])
def test_without_javascript_texts_and_tables_are_there(browse: Open, demo_page: Path, files: Path, name: str) -> None:
    driver = browse(demo_page if name == "demo" else files / f"{name}.html", "phone", scripts=False)
    text = one(driver, "body").text
    assert "The map needs JavaScript" in text
    assert one(driver, ".verdict").text in text
    charts = driver.find_elements("css selector", "section .narrow svg")
    assert all(chart.is_displayed() for chart in charts)
    assert charts
    assert [e for e in driver.find_elements("css selector", ".scripted") if e.is_displayed()] == []
    one(driver, "section details summary").click()
    assert one(driver, "section details table").is_displayed()
    expected = {
        "demo": ("Typical entities", "flights", "AUROC is"),
        "evaluation": ("likes", "50 % of the labels", "Typical entities", "The data"),
        "run": ("amount", " ± .", "The mean loss goes from"),
    }[name]
    assert [part for part in expected if part not in text] == []


def test_two_hundred_thousand_points_are_drawn_and_moved(
    browse: Open, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, rng = 200_000, np.random.default_rng(0)
    table = pl.DataFrame({"card": np.arange(n), "day": np.arange(n), "paid": rng.random(n)})
    data = ev.read(table, key="card", time="day", numeric=["paid"])
    blob = rng.integers(9, size=n)
    z = Embeddings.of(data, rng.normal(size=(9, 8))[blob] + rng.normal(size=(n, 8)))
    labels = pl.DataFrame({"card": np.arange(n), "segment": pl.Series(blob).cast(pl.String), "paid": rng.random(n)})
    monkeypatch.setattr(run_report, "map2d", lambda z, seed: z[:, :2])
    file = tmp_path / "many.html"
    ev.report(embeddings=z, labels=labels).write(file)
    start = time.perf_counter()
    driver = browse(file)
    before = picture(driver)
    shown = time.perf_counter() - start
    frames = driver.execute_async_script(
        """
        const done = arguments[0], canvas = document.getElementById("map"), times = [];
        const clientY = canvas.getBoundingClientRect().top + 200;
        const send = (type, clientX) => canvas.dispatchEvent(new PointerEvent(type, { clientX, clientY }));
        canvas.setPointerCapture = () => {};
        let last = performance.now(), x = 400;
        send("pointerdown", x);
        requestAnimationFrame(function step(now) {
          times.push(now - last);
          last = now;
          if (times.length === 60) { send("pointerup", x); done(times.slice(1)); return; }
          send("pointermove", x += 3);
          requestAnimationFrame(step);
        });
        """
    )
    drawing = float(driver.execute_script("return document.getElementById('map').dataset.milliseconds"))
    assert picture(driver) != before
    choose(driver, "#colour", "paid")
    click(driver, "[data-mode=lasso]")
    click(driver, "#zoom-all")
    drag(driver, (-0.4, -0.4), (0.4, -0.4), (0.4, 0.4), (-0.4, 0.4))
    assert int(one(driver, "#selected").text.split()[0].replace(",", "")) > n / 2
    with capsys.disabled():
        sys.stdout.write(
            f"\n200,000 points, {file.stat().st_size / 1e6:.1f} MB: shown after {shown:.1f} s with the start of the "
            f"browser; while moving, a frame takes {np.median(frames):.0f} ms (median), {max(frames):.0f} ms "
            f"(longest), of which drawing {drawing:.0f} ms\n"
        )
