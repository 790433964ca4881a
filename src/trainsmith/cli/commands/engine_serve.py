"""`trainsmith engine serve --base ID`: the local engine for clients of Tinker's, OpenAI's and vLLM's APIs."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import TYPE_CHECKING

from trainsmith.cli.invocation import Invocation
from trainsmith.config.serve import ServeConfig

if TYPE_CHECKING:
    from trainsmith.engine.server.serving import Address


def run(invocation: Invocation) -> int:
    """Serve until interrupted; one line on stdout says that it is ready."""
    config = invocation.config(ServeConfig)
    # Imported here: `--help` needs no server.
    from trainsmith.engine.server.serving import serve

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s")

    def ready(address: Address) -> None:
        text = _document(address) if invocation.json else _lines(address)
        print(text, flush=True)

    asyncio.run(serve(config, ready, lambda text: print(text, file=sys.stderr, flush=True)))
    raise KeyboardInterrupt  # only a signal ends the server


def _document(address: Address) -> str:
    return json.dumps({"url": address.url, "token": address.token, "model": address.model})


def _lines(address: Address) -> str:
    return "\n".join(
        (
            f"serving {address.model} at {address.url}; end it with Ctrl-C",
            f"export TINKER_BASE_URL={address.url} TINKER_API_KEY={address.token}",
            f"export OPENAI_BASE_URL={address.url}/v1 OPENAI_API_KEY={address.token}",
        )
    )
