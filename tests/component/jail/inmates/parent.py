"""A trusted process that opens an environment, says so, and waits to be killed.

`parent.py KIND FOLDER HOW`.
"""

import asyncio
import sys
from pathlib import Path

from trainsmith.jail import choose
from trainsmith.jail.border import GenerateCall, GenerateReply, open_environment


async def never(call: GenerateCall) -> GenerateReply:
    await asyncio.sleep(1e6)
    raise AssertionError


async def main(kind: str, folder: str, how: str) -> None:
    async with open_environment(Path(folder), "faults", '{"faults": ["daemon"]}', jail=choose(kind)) as env:
        await env.score(16, "daemon")
        print(env._crew.nursery.process.pid, flush=True)
        if how == "wait":
            await env.rollout(0, never)


asyncio.run(main(*sys.argv[1:4]))
