"""Renders a run's report: views into one HTML file with its style inside, no scripts, nothing loaded.

Everything that an agent, a model or an author's environment wrote is escaped by Jinja and passes `visible`.
The page forbids itself (by its content security policy) to load or run anything.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from pathlib import Path

import jinja2
from markupsafe import Markup

from trainsmith import __version__
from trainsmith.files import write_atomic
from trainsmith.report import charts, figures, text, verdicts
from trainsmith.report.sources import LATEST, gather
from trainsmith.report.views import Report
from trainsmith.runs import RunDirectory


def render(run: Path, which: str = LATEST) -> Path:
    """Write `report.html` of a run and return its path.

    `which` is an episode's id, `latest` or `all`; a run without episodes shows its latest job.
    Raises UserError for a folder that is no run and for an unknown id, MachineError if it cannot be written.
    """
    directory = RunDirectory(run)
    write_atomic(directory.report, html(gather(directory, which)))
    return directory.report


def html(report: Report) -> str:
    """The page as text."""
    style = _asset("style.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        _environment()
        .get_template("page.html")
        .render(report=report, style=Markup(style), style_digest=digest, version=__version__)
    )


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (text.visible, text.markdown, text.score, text.signed, text.bounds, text.p_value, text.seconds)
    environment.filters.update({function.__name__: function for function in (*filters, text.number)})
    environment.globals.update(charts=charts, figures=figures, verdicts=verdicts)
    return environment


def _asset(name: str) -> str:
    return (resources.files(__package__) / "templates" / name).read_text(encoding="utf-8")
