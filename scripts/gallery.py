"""Makes the pictures of docs/gallery.md: runs eventvec on the flights, and takes pictures of the pages that it writes.

    python scripts/gallery.py FOLDER [docs/pictures]

FOLDER keeps the run and the pages; a command whose result is there is not run again. The pictures need Chromium with
its driver (`make debian`) and the extras `demo` and `slow`.
"""

from __future__ import annotations

import base64
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import eventvec as ev

COMMANDS = {
    "run": "fit --events flights.parquet --key tailnum --time time --holdout 0.3 --epochs 5 --out run",
    "z.parquet": "embed run flights.parquet -o z.parquet",
    "report.html": "report run flights.parquet planes.parquet --label built_2002 "
    "--models logistic_regression --fractions 1,0.1 -o report.html",
    "drift.html": "drift march.parquet july.parquet --model run -o drift.html",
    "evaluation.html": "evaluate z.parquet planes.parquet --label built_2002 --events flights.parquet "
    "--models logistic_regression --fractions 1,0.3,0.1,0.03 -o evaluation.html",
    "audit.html": "audit run flights.parquet --protected planes.parquet --columns built_2002 "
    "--models logistic_regression -o audit.html",
    "compare.html": "compare jfk.parquet planes.parquet --key tailnum --time time --label built_2002 "
    "--methods coles,cpc,next_event --epochs 3 --models logistic_regression --out compared --page compare.html",
}
"""The commands, by what each writes."""


@dataclass(frozen=True)
class Picture:
    """What a picture shows.

    Args:
        page: The page.
        first: The selector of its first element; the picture begins at its upper edge.
        last: The selector of its last element; the picture ends at its lower edge.
        before: JavaScript that changes the page before the picture is taken.
        width: The width of the window in pixels.
        scheme: The colours, `light` or `dark`.
        height: The largest height of the picture in pixels.
        scale: The number of pixels of the picture for each of the window.
    """

    page: str
    first: str
    last: str
    before: str = ""
    width: int = 460
    scheme: str = "light"
    height: int = 640
    scale: float = 1.5


QUALITY = 60
BOX = """
const [first, last] = [...arguments].map(selector => document.querySelector(selector).getBoundingClientRect());
const left = Math.max(0, first.left - 10), top = Math.max(0, first.top + scrollY - 10);
return [left, top, document.documentElement.clientWidth - 2 * left, last.bottom + scrollY + 2 - top];
"""
"""The left and upper edge, the width and the height of two elements and what is between them, with margins."""
NEXT_FRAMES = """
const done = arguments[arguments.length - 1];
requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 500)));
"""
COLOUR = """
const list = document.getElementById("colour");
list.value = [...list.options].find(option => option.text.startsWith("carrier")).value;
list.dispatchEvent(new Event("change"));
"""
"""The map is coloured by airline."""
POINT = """
const map = document.getElementById("map"), box = map.getBoundingClientRect(), tip = document.getElementById("tip");
for (let x = box.width / 5; x < box.width && tip.hidden; x += 9)
  for (let y = box.height / 4; y < box.height && tip.hidden; y += 9)
    map.dispatchEvent(new PointerEvent("pointermove", {clientX: box.x + x, clientY: box.y + y, bubbles: true}));
"""
"""The pointer is at the first point that it meets from the left, so that the map says what is known of it."""
UNFOLD = 'document.querySelectorAll("details.card").forEach(details => { details.open = true; });'
PICTURES = {
    "decision": Picture("report.html", "header", "dl"),
    "results": Picture("evaluation.html", "figure", "figure .narrow"),
    "map": Picture("report.html", "#legend", ".stage", COLOUR),
    "neighbours": Picture("report.html", "#event-legend", "#neighbour-table"),
    "training": Picture("report.html", "details:nth-of-type(1).card", "details:nth-of-type(1).card", UNFOLD),
    "data": Picture("report.html", "details:nth-of-type(2).card", "details:nth-of-type(2).card figure", UNFOLD),
    "influence": Picture("influence.html", "figure", "figure .narrow"),
    "drift": Picture("drift.html", "figure", "figure .narrow"),
    "privacy": Picture("audit.html", "figure", "figure"),
    "compare": Picture("compare.html", "figure", "figure .narrow"),
    "search": Picture("search.html", "header", "table"),
    "report-map": Picture("report.html", "#legend", ".stage", COLOUR + POINT, width=900, height=760),
    "report-phone": Picture("report.html", "header", "figure", width=375, scheme="dark", height=1200, scale=1),
}


def write_pages(folder: Path) -> None:
    """Run what is not in the folder yet: the commands, and two calls whose answers have a page only in Python."""
    folder.mkdir(parents=True, exist_ok=True)
    events, planes = ev.datasets.flights_frames()
    month = events["time"].dt.month()
    tables = {"flights": events, "planes": planes, "jfk": events.filter(events["origin"] == "JFK")}
    tables |= {"march": events.filter(month == 3), "july": events.filter(month == 7)}
    for name, table in tables.items():
        table.write_parquet(folder / f"{name}.parquet")
    for result, command in COMMANDS.items():
        if not (folder / result).exists():
            print(f"eventvec {command}", flush=True)
            subprocess.run([sys.executable, "-m", "eventvec", *shlex.split(command)], cwd=folder, check=True)
    calls: dict[str, Callable[[], ev.Answer]] = {
        "influence.html": lambda: ev.influence(
            ev.load(folder / "run"), folder / "flights.parquet", planes, "built_2002"
        ),
        "search.html": lambda: ev.search(
            ev.read_embeddings(folder / "z.parquet"), key="N328AA", count=5, events=folder / "flights.parquet"
        ),
    }
    for result, call in calls.items():
        if not (folder / result).exists():
            print(result, flush=True)
            call().write(folder / result)


def take_pictures(folder: Path, out: Path) -> None:
    """Open the pages in Chromium and write the pictures as WebP."""
    with chromium() as browser:
        for name, picture in PICTURES.items():
            screen = {"width": picture.width, "height": 900, "deviceScaleFactor": picture.scale, "mobile": False}
            scheme = {"name": "prefers-color-scheme", "value": picture.scheme}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
            browser.get((folder / picture.page).absolute().as_uri())
            browser.execute_async_script(f"{picture.before}\n{NEXT_FRAMES}")
            left, top, width, height = browser.execute_script(BOX, picture.first, picture.last)
            clip = {"x": left, "y": top, "width": width, "height": min(height, picture.height), "scale": 1}
            options = {"format": "webp", "quality": QUALITY, "captureBeyondViewport": True, "clip": clip}
            image = base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", options)["data"])
            (out / f"{name}.webp").write_bytes(image)
            print(f"{out / name}.webp {len(image):,} bytes")


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a headless Chromium."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    browser.implicitly_wait(5)
    try:
        yield browser
    finally:
        browser.quit()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    write_pages(Path(sys.argv[1]))
    take_pictures(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "docs/pictures"))
