"""Charts: what is drawn is in the box, says what it shows, and cannot break out of its SVG."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from trainsmith.report import charts

finite = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(st.lists(st.tuples(finite, st.floats(0, 1e6)), min_size=1, max_size=40), st.integers(1, 1000))
def test_lines_stay_in_the_box(points: list[tuple[float, float]], first: int) -> None:
    """Guards against curves outside their axes, divisions by a zero span, and NaN coordinates."""
    values, spread = [value for value, _ in points], [width for _, width in points]
    steps = list(range(first, first + len(points)))
    chart = charts.line_chart("Reward", steps, values, spread=spread)
    for shape in ET.fromstring(chart.svg):
        for pair in shape.get("points", "").split():
            x, y = map(float, pair.split(","))
            assert -0.01 <= x <= 100.01
            assert -0.01 <= y <= 100.01
    assert 2 <= len(chart.ticks) <= 8
    assert float(chart.ticks[-1]) <= min(values) + 1e-6 * max(1.0, abs(min(values)))


def test_constant_and_single_values_are_drawn() -> None:
    """Guards against an empty chart for a run of one step or a flat line at 0."""
    for values in ([0.0], [0.0, 0.0], [0.25]):
        assert 'class="line"' in charts.line_chart("x", list(range(len(values))), values).svg


def test_a_share_ends_at_one() -> None:
    """Guards against a band that suggests rewards above 1."""
    chart = charts.line_chart("Reward", [1, 2], [0.9, 0.95], spread=[0.3, 0.3], share=True)
    assert (chart.ticks[0], chart.ticks[-1]) == ("1", "0")


def test_labels_are_escaped() -> None:
    """Guards against markup in a label that ends the attribute or the title."""
    hostile = '"><script>alert(1)</script>'
    made = charts.stacked_bar([(hostile, 1.0, "kept")])
    assert "<script" not in made
    assert ET.fromstring(made).get("aria-label") == f"{hostile}: 1"


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=5))
def test_bars_fill_their_width(amounts: list[float]) -> None:
    """Guards against parts that overlap or leave gaps."""
    svg = ET.fromstring(charts.stacked_bar([("part", amount, "kept") for amount in amounts]))
    width = sum(float(part.get("width", "0").rstrip("%")) for part in svg)
    assert width == 0.0 or abs(width - 100.0) < 0.05
