"""The report of a run: one self-contained HTML page, without scripts and without the network.

`page.render` writes it, `sources` reads the run, `views` is what lies between. Not here: live pages.
"""

from trainsmith.report.page import render

__all__ = ["render"]
