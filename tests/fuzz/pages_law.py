"""The law of pages: elements nest, and no node, attribute, script or comment came from a value or name in the data."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

from outcomes import require

PAYLOADS = (
    "<xinjected>", "<img src=x onxinjected=1>", "</script><xinjected>", "</title></style><xinjected>", "\"><xinjected>",
    "' onxinjected='1", '" onxinjected="1', "<!--<script>xinjected", "--><xinjected>", "<svg/onxinjected=1>",
    "<a href=javascript:xinjected()>", "{{ 'xinjected' }}", "]]><xinjected>", "\u2028xinjected", "&lt;xinjected&gt;",
    "<base href=//xinjected>", "</td></table><xinjected>",
)  # fmt: skip
"""Texts that would be nodes or attributes of a page that did not escape them; each has the word `xinjected`."""
WORD = "xinjected"
VOID = {"meta", "link", "br", "img", "input", "hr"}
ADDRESSES = ("src", "href", "action", "srcset")


class Nodes(HTMLParser):
    """Require that elements nest and that no node of a page is a payload."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.seen = set[str]()
        self.feed(text)
        self.close()
        require(not self.open, "the page has elements that are never closed", self.open[-3:])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        require(WORD not in tag, "the page has a node that a payload injected", tag)
        for name, value in attrs:
            wrong = WORD in name or name.startswith("on") or (name in ADDRESSES and not _is_local(value or ""))
            require(not wrong, "the page has an attribute that a payload injected", (tag, name, value))
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        opened = self.open.pop()[0] if self.open else None
        require(opened == tag, "the elements of the page do not nest", f"{opened} is closed by {tag}")

    def handle_data(self, data: str) -> None:
        tag, attributes = self.open[-1] if self.open else ("", {})
        if tag == "script" and attributes.get("id") == "data":
            require("<" not in data, "the data of the page have a < that a browser may take for a tag")
            require(_is_json(data), "the data of the page are not whole")
        elif tag in ("script", "style"):
            require(WORD not in data, f"a {tag} of the page has a text of the data")

    def handle_comment(self, data: str) -> None:
        require(WORD not in data, "a comment of the page has a text of the data", data)


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _is_local(address: str) -> bool:
    return address.startswith(("#", "data:")) and WORD not in address


def check_page(path: Path | str) -> None:
    """Check that a file is a whole page without nodes that a payload injected."""
    text = Path(path).read_text("utf-8")
    require(text.rstrip().endswith("</html>"), "the page is not whole")
    raw = [payload for payload in PAYLOADS if "<" in payload and payload in text]
    require(not raw, "the page has a payload that is not escaped", raw)
    nodes = Nodes(text)
    require({"html", "title", "main", "h1"} <= nodes.seen, "the page lacks its title or its body", nodes.seen)
