"""The law of pages: they are whole, elements nest, and no element, attribute or script came from the data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from outcomes import require

import pages

PAYLOADS = (
    "<evil onevil=1>", '"><evil onevil=1>', "' onevil='1", '" onevil="1', " onevil=1 ", "</script><evil>",
    "&lt;evil>", "<!--<script><evil>", "-->", "</title><evil>", "</style><evil>", "{{ evil }}", "{% evil %}",
    "]]><evil>", "&#60;evil>", "</td></tr></table><evil>", "\u2028<evil>", "<evil",
    "<a href='javascript:evil()'>x</a>", "\\u003cevil\\u003e", "${evil}", "%{evil}", "<b>evil",
    "</textarea></noscript><evil>", "<svg/onevil=1>", "<EVIL/>", "<base href=//evil>",
)  # fmt: skip
"""Texts that would be elements or attributes of a page that did not escape them."""


class Page(pages.Reader):
    """The elements of a page, which must nest, none of which a payload made."""

    def __init__(self, text: str) -> None:
        self.tags = list[str]()
        super().__init__(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        self.tags.append(tag)
        require("evil" not in tag, "a payload is an element", tag)
        for name, value in attrs:
            require("evil" not in name and not name.startswith("on"), "a payload is an attribute", f"{tag} {name}")
            safe = name not in ("href", "src") or str(value).startswith("#")
            require(safe, "a link leads out of the page", f"{tag} {name} {value}")

    def handle_endtag(self, tag: str) -> None:
        require(bool(self.open) and self.open[-1][0] == tag, "elements do not nest", tag)
        super().handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == ("script", {"type": "application/json", "id": "data"}):
            require("<" not in data, "the data of a page have a < that a browser may take for a tag")
            require(_is_json(data), "the data of a page are not whole")
        super().handle_data(data)

    def handle_comment(self, data: str) -> None:
        require(False, "a page has a comment", data)


def check_page(text: str) -> None:
    """Check that a page is whole, and that no payload is an element, an attribute, a script or markup of a chart."""
    require(text.rstrip().endswith("</html>"), "the page is not whole", text[-80:])
    raw = [payload for payload in PAYLOADS if "<" in payload and payload in text]
    require(not raw, "a payload is not escaped", raw)
    page = Page(text)
    require(not page.open, "elements are never closed", page.open[-1:])
    require(page.tags.count("script") == 3 and "figures" in page.data, "a page has other scripts", page.tags)
    for shown in _texts(page.data["figures"]):  # plotly reads some elements in its texts
        require("<evil" not in shown.lower() and "<a " not in shown, "a payload is markup of a chart", shown)


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
