"""Charts as inline SVG that stretch with the page while their text keeps its size.

Lines are drawn in a 100 x 100 box that is stretched; axes' labels are HTML around it (templates). Rows and
bars are placed by percentages. Colours come from the page's style by class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from xml.etree import ElementTree as ET

from markupsafe import Markup

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class LineChart:
    """A drawn line with the labels of its axes, evenly spaced."""

    title: str
    unit: str
    svg: Markup
    ticks: tuple[str, ...]
    """From top to bottom."""
    first: int
    last: int


def line_chart(
    title: str,
    steps: Sequence[int],
    values: Sequence[float],
    *,
    unit: str = "",
    spread: Sequence[float] = (),
    share: bool = False,
) -> LineChart:
    """`values` over `steps`, with a band of +- `spread`; 0 is always on the axis.

    For a `share` axis and band end at 0 and 1.
    """
    band = spread or [0.0] * len(values)
    ends = (0.0, 1.0) if share else (-math.inf, math.inf)
    highs = [min(ends[1], value + width) for value, width in zip(values, band, strict=True)]
    lows = [max(ends[0], value - width) for value, width in zip(values, band, strict=True)]
    bottom, upper, tick = _axis(min(0.0, *lows), 1.0 if share else max(0.0, *highs))
    x = [_scale(step, steps[0], max(steps[-1], steps[0] + 1)) for step in steps]

    def y(value: float) -> float:
        return 100.0 - _scale(value, bottom, upper)

    summary = f"{title}: from {values[0]:.3g} at step {steps[0]} to {values[-1]:.3g} at step {steps[-1]}"
    svg = _svg(summary, viewBox="0 0 100 100", preserveAspectRatio="none")
    grid = _ticks(bottom, upper, tick)
    for value in grid:
        _add(svg, "line", "grid", x1=0.0, x2=100.0, y1=y(value), y2=y(value))
    if spread:
        corners = [*zip(x, map(y, highs), strict=True), *reversed(list(zip(x, map(y, lows), strict=True)))]
        _add(svg, "polygon", "band", points=_points(corners))
    line = list(zip(x, map(y, values), strict=True))
    _add(svg, "polyline", "line", points=_points(line if len(line) > 1 else [line[0], (100.0, line[0][1])]))
    _hover(svg, x, [f"step {step}: {value:.3g}" for step, value in zip(steps, values, strict=True)])
    return LineChart(
        title, unit, _markup(svg), tuple(f"{value:.6g}" for value in reversed(grid)), steps[0], steps[-1]
    )


def interval_row(mean: float, low: float, high: float, *, mark: float | None, kind: str) -> Markup:
    """One interval on the axis from 0 to 1; `mark` is a reference that all rows share."""
    svg = _svg(f"{mean:.2f}, interval {low:.2f} to {high:.2f}")
    for tick in (0, 25, 50, 75, 100):
        _add(svg, "line", "grid", x1=f"{tick}%", x2=f"{tick}%", y1="0", y2="100%")
    if mark is not None:
        _add(svg, "line", "mark", x1=_percent(mark), x2=_percent(mark), y1="0", y2="100%")
    _add(svg, "line", f"whisker {kind}", x1=_percent(low), x2=_percent(high), y1="50%", y2="50%")
    _add(svg, "circle", f"dot {kind}", cx=_percent(mean), cy="50%", r="5")
    return _markup(svg)


def stacked_bar(parts: Sequence[tuple[str, float, str]]) -> Markup:
    """Parts of a whole as (label, amount, class); labels show when pointed at."""
    total = sum(amount for _, amount, _ in parts) or 1.0
    svg = _svg(", ".join(f"{label}: {amount:.3g}" for label, amount, _ in parts))
    ends = list(accumulate((amount / total for _, amount, _ in parts), initial=0.0))
    for (label, amount, kind), (start, end) in zip(parts, pairwise(ends), strict=True):
        if amount > 0:
            part = _add(
                svg, "rect", kind, x=_percent(start), width=_percent(end - start), y="0", height="100%"
            )
            ET.SubElement(part, "title").text = f"{label}: {amount:.3g}"
    return _markup(svg)


def gauge(value: float) -> Markup:
    """A share in [0, 1] as a bar."""
    svg = _svg(f"{value:.2f} of 1")
    _add(svg, "rect", "empty", x="0", width="100%", y="0", height="100%")
    if value > 0:
        _add(svg, "rect", "full", x="0", width=_percent(value), y="0", height="100%")
    return _markup(svg)


def _axis(low: float, high: float) -> tuple[float, float, float]:
    """Round ends of an axis from `low` <= 0 to `high` >= 0, and the distance of its 2 to 5 gaps."""
    span = (high - low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    tick = next(step * power for step in _STEPS if step * power >= span / 4 * 0.999)
    bottom, top = math.floor(low / tick + 1e-9) * tick, math.ceil(high / tick - 1e-9) * tick
    return bottom, top if top > bottom else tick, tick


def _ticks(bottom: float, top: float, tick: float) -> list[float]:
    return [bottom + number * tick for number in range(round((top - bottom) / tick) + 1)]


def _scale(value: float, low: float, high: float) -> float:
    return 100.0 * (value - low) / (high - low)


def _hover(svg: ET.Element, x: Sequence[float], titles: Sequence[str]) -> None:
    """Invisible columns that tell a step's value when pointed at."""
    width = 100.0 / len(x)
    for centre, title in zip(x, titles, strict=True):
        column = _add(svg, "rect", "hover", x=centre - width / 2, y=0.0, width=width, height=100.0)
        ET.SubElement(column, "title").text = title


def _svg(summary: str, **attributes: str) -> ET.Element:
    return ET.Element("svg", {"role": "img", "aria-label": summary, **attributes})


def _add(parent: ET.Element, tag: str, kind: str, **attributes: str | float) -> ET.Element:
    texts = {key: value if isinstance(value, str) else f"{value:.2f}" for key, value in attributes.items()}
    return ET.SubElement(parent, tag, {"class": kind, **texts})


def _points(corners: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in corners)


def _percent(share: float) -> str:
    return f"{100 * min(1.0, max(0.0, share)):.2f}%"


def _markup(svg: ET.Element) -> Markup:
    return Markup(ET.tostring(svg, encoding="unicode"))  # ElementTree has escaped every text
