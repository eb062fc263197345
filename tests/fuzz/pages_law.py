"""The law of pages: they are whole, elements nest, and no element, attribute or script came from the data."""

from __future__ import annotations

import re

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
            safe = name not in ("href", "xlink:href", "src") or str(value).startswith("#")
            require(safe, "a link leads out of the page", f"{tag} {name} {value}")

    def handle_endtag(self, tag: str) -> None:
        require(bool(self.open) and self.open[-1][0] == tag, "elements do not nest", tag)
        super().handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == ("script", {"type": "text/plain", "id": "data"}):
            require(bool(re.fullmatch("[A-Za-z0-9+/]*=*", data)), "the data of a page are not in the base of 64")
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
    require(page.tags.count("script") in (0, 2), "a page has other scripts", page.tags)
