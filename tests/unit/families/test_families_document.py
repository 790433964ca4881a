"""`docs/families.md` against the figures that ship."""

from benchmarks.calibration_table import DOCUMENT, written

from trainsmith import families
from trainsmith.families.calibration import calibration


def test_the_tables_are_the_shipped_figures() -> None:
    """Guards against a table in the documents that no measurement stands behind."""
    document = DOCUMENT.read_text(encoding="utf-8")
    assert document == written(document, calibration())


def test_every_shipped_kind_has_head_room_on_its_first_base() -> None:
    """Guards against a kind that is too hard or too easy to teach, or that guessing solves."""
    figures = {(row.task, row.base): row for row in calibration().untrained}
    for name in families.task_ids():
        row = figures[name, families.task(name).bases[0]]
        assert 0.05 <= row.greedy.mean <= 0.6, name
        assert row.pass_at_8 > row.sampled + 0.1, name
        assert row.guess < row.greedy.mean, name
