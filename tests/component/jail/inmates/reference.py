"""The semantics probe on verifiers' own interception server, over HTTP and without a jail: `reference.py
FOLDER`.

Prints what each task came to, as JSON. The border's in-process boundary is compared with it.
"""

import asyncio
import json
import sys
import types
from typing import Any

import httpx
import verifiers.v1 as vf
from verifiers.v1 import env as vf_env
from verifiers.v1.clients import ModelContext
from verifiers.v1.clients.client import Client
from verifiers.v1.clients.train import serialize_completion
from verifiers.v1.configs.client import EvalClientConfig
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.interception import InterceptionServer
from verifiers.v1.types import AssistantMessage, Response, SamplingConfig, SystemMessage, Usage, UserMessage
from verifiers.v1.utils.loaders import env_config_type, load_environment


def reply(contents: list[str]) -> tuple[str, float]:
    """The model of the comparison: its reply to a conversation, and the seconds it takes."""
    last = contents[-1]
    if last == "more 2" and "q0" in contents:
        return "zzz", 0.0
    return f"reply to {last}", 1.5 if last == "more 1" and "q4" in contents else 0.0


class HttpHarness(vf.Harness[vf.HarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        system, prompt = self.resolve_prompt(data)
        messages = [SystemMessage(content=system)] if system else []
        messages += [UserMessage(content=prompt)] if isinstance(prompt, str) else list(prompt or [])
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            answer = await client.post(
                f"{endpoint}/chat/completions",
                headers={"Authorization": f"Bearer {secret}"},
                json={"model": "policy", "messages": [message_to_wire(message) for message in messages]},
            )
        good = answer.status_code == 200
        return vf.ProgramResult(exit_code=0 if good else 1, stdout="", stderr="" if good else answer.text)


class CannedClient(Client):
    async def get_response(self, dialect, body, sampling, session_id=None, turn=None, headers=None):
        messages = dialect.parse_request(body).messages
        text, seconds = reply([message.content for message in messages])
        await asyncio.sleep(seconds)
        usage = Usage(prompt_tokens=1, completion_tokens=1)
        response = Response(
            id="0",
            created=0,
            model="policy",
            message=AssistantMessage(content=text),
            finish_reason="stop",
            usage=usage,
        )
        response.raw = serialize_completion(response, "policy")
        return response


def summary(trace: Any) -> dict[str, Any]:
    return {
        "agent": trace.agent.name,
        "trainable": trace.agent.trainable,
        "ok": trace.ok,
        "stop": trace.stop_condition,
        "timed_out": trace.is_timeout,
        "turns": trace.num_turns,
        "rewards": {name: [reward.score, reward.weight] for name, reward in trace.rewards.items()},
        "metrics": dict(trace.metrics),
        "errors": [error.type for error in trace.errors],
    }


async def main(folder: str) -> None:
    sys.path.insert(0, folder)
    module = types.ModuleType("http_harness")
    module.__dict__.update(HttpHarness=HttpHarness, __all__=["HttpHarness"])
    sys.modules["http_harness"] = module
    server = InterceptionServer()
    server._client = lambda config: CannedClient()
    vf_env.make_interception = lambda *arguments, **options: server
    seat = {"harness": {"id": "http_harness"}, "runtime": {"type": "subprocess"}}
    raw = {"taskset": {"id": "semantics"}, "solver": seat, "judge": seat}
    env = load_environment(env_config_type("semantics").model_validate(raw))
    client = EvalClientConfig(base_url="http://none.invalid", api_key_var="NONE")
    context = ModelContext(model="policy", client=client, sampling=SamplingConfig())
    results = []
    async with env.serving():
        for task in env.taskset:
            episode = await env.run_episode(task, context)
            traces = [summary(trace) for trace in episode.traces]
            errors = [error.type for error in episode.errors]
            results.append({"ok": episode.ok, "errors": errors, "traces": traces})
    print(json.dumps(results))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
