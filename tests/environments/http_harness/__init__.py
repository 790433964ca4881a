"""A harness without a program: one chat completion a turn, posted from within the evaluating process.

The harnesses that come with verifiers start a program of their own for every rollout, which is fetched and
run with `uv`.
"""

import httpx
import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.types import SystemMessage, UserMessage


class HttpHarness(vf.Harness[vf.HarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        system, prompt = self.resolve_prompt(data)
        messages = [SystemMessage(content=system)] if system else []
        messages += [UserMessage(content=prompt)] if isinstance(prompt, str) else list(prompt or [])
        async with httpx.AsyncClient(timeout=300, trust_env=False) as client:
            answer = await client.post(
                f"{endpoint}/chat/completions",
                headers={"Authorization": f"Bearer {secret}"},
                json={"model": ctx.model, "messages": [message_to_wire(message) for message in messages]},
            )
        good = answer.status_code == 200
        return vf.ProgramResult(exit_code=0 if good else 1, stdout="", stderr="" if good else answer.text)


__all__ = ["HttpHarness"]
