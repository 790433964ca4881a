"""How large a job folder and its rollouts may be: one place for workspace, loader, snapshot and trainer."""

from __future__ import annotations

MAX_FILES = 100
"""Regular files in the folder."""
MAX_BYTES = 5_000_000
"""Bytes of all files together; no single file may be larger either."""
MAX_DIRECTORIES = 100
"""Directories in the folder."""
MAX_DEPTH = 10
"""Names in a path, the file's own included."""
MAX_NAME = 100
"""Characters of one name."""
MAX_TOML_BYTES = 65_536
"""Bytes of rl.toml."""
MAX_TOML_DEPTH = 16
"""Tables and arrays inside each other in rl.toml."""

MAX_TURNS = 64
"""Model turns of one rollout."""
MAX_ROLLOUT_SECONDS = 60.0
"""The environment's own time in one rollout."""
MAX_HOOK_SECONDS = 20.0
"""Set-up, finalize or scoring of one rollout."""
