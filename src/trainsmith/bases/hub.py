"""Fetch a model from the Hugging Face hub: config, tokenizer, chat template and safetensors only."""

from __future__ import annotations

import shutil
from pathlib import Path

from trainsmith.bases.base_model import Hf
from trainsmith.errors import MachineError

_PATTERNS = ["*.json", "*.jinja", "*.safetensors", "merges.txt", "vocab.json"]


def fetch_from_hub(source: Hf, draft: Path) -> None:
    """Download the repository at its revision into `draft`. Raises MachineError when that fails."""
    from httpx import HTTPError
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        snapshot_download(
            source.repo,
            revision=source.revision,
            local_dir=draft,
            allow_patterns=_PATTERNS,
            ignore_patterns=["*/*"],
        )
    except (HfHubHTTPError, HTTPError, OSError, ValueError) as error:
        raise MachineError(
            f"download failed: {str(error).splitlines()[0]}",
            where=f"hf:{source.repo}@{source.revision}",
            fix="check the name, the revision, the network and, for a gated model, the account",
        ) from error
    # The hub client's own records of the download; the cache has its manifest.
    shutil.rmtree(draft / ".cache", ignore_errors=True)
