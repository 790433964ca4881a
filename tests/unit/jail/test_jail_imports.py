"""What the trusted side of the border imports."""

from __future__ import annotations

import subprocess
import sys


def test_the_trusted_side_imports_no_verifiers_and_no_torch():
    """Guards against a trusted process that loads what an author could patch, and against a slow start."""
    script = (
        "import sys, trainsmith.jail, trainsmith.jail.border\n"
        "bad = {'verifiers', 'torch', 'transformers', 'openai', 'numpy'} & set(sys.modules)\n"
        "raise SystemExit(', '.join(sorted(bad)) or 0)"
    )
    end = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert end.returncode == 0, end.stderr
