"""The guide that every workspace holds; its text is in guide.md."""

from __future__ import annotations

from importlib.resources import files


def text() -> str:
    """The whole guide."""
    return files("trainsmith.episode").joinpath("guide.md").read_text(encoding="utf-8")
