"""`python -m trainsmith_enter SPEC COMMAND...`: confine this process, then become the command."""

from __future__ import annotations

from .enter import main

main()
