"""Text for the page: numbers, untrusted strings, and the brief's Markdown.

HTML escaping is Jinja's; what is made safe here is what escaping lets through.
"""

from __future__ import annotations

import functools
import unicodedata

from markdown_it import MarkdownIt
from markupsafe import Markup

from trainsmith.records import Difference, Interval

MAX_SHOWN = 20_000
"""Characters of one untrusted text on the page."""
_KEPT = frozenset("\n\t")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Control, format (also those that turn the direction of text), surrogate, private, line separators."""


def visible(text: str, limit: int = MAX_SHOWN) -> str:
    """Untrusted text with every invisible or direction-changing character spelled out, cut at `limit`."""
    cut = text if len(text) <= limit else f"{text[:limit]}\n[{len(text) - limit:,} more characters]"
    if cut.isascii() and cut.isprintable():
        return cut
    return "".join(_spell(character) for character in cut)


def markdown(text: str) -> Markup:
    """Markdown as HTML; raw HTML in it is shown as text, links and images are not made."""
    return Markup(_renderer().render(visible(text)))  # html=False escapes all of the source


def score(value: float) -> str:
    """A score in [0, 1]."""
    return f"{value:.2f}"


def signed(value: float) -> str:
    """A difference, with its sign (a true minus)."""
    return f"{value:+.2f}".replace("-", "\N{MINUS SIGN}")


def bounds(interval: Interval | Difference) -> str:
    """The interval in brackets; signed for a difference."""
    form = signed if isinstance(interval, Difference) else score
    return f"[{form(interval.low)}, {form(interval.high)}]"


def p_value(p: float) -> str:
    """A p-value as a statement."""
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def seconds(value: float) -> str:
    """A duration."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 100:
        return f"{value:.1f} s"
    return f"{value / 60:.1f} min"


def number(value: float) -> str:
    """A whole number with thin spaces."""
    return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def _spell(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _UNSEEN:
        return character
    if ord(character) < 32:
        return chr(0x2400 + ord(character))  # Unicode's picture of the control character
    return f"⟨U+{ord(character):04X}⟩"


@functools.cache
def _renderer() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "link", "autolink"])
