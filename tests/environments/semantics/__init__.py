"""A probe of verifiers' semantics: hooks, state, dict rewards, stops, time-outs, two agents, Env.finalize."""

import asyncio

import verifiers.v1 as vf


class ProbeData(vf.TaskData):
    kind: int


class ProbeState(vf.State):
    seen: list[str] = []  # noqa: RUF012 - verifiers' own way to declare a default


class ProbeTask(vf.Task[ProbeData, ProbeState]):
    async def setup(self, trace, runtime):
        trace.state.seen.append("setup")
        await runtime.write("note.txt", b"hello")

    async def finalize(self, trace, runtime):
        trace.state.seen.append("finalize:" + (await runtime.read("note.txt")).decode())

    @vf.stop
    async def enough(self, trace: vf.Trace) -> bool:
        return trace.num_turns >= 3 and self.data.kind == 1

    @vf.stop
    async def bad_word(self, response: vf.Response) -> bool:
        return "zzz" in (response.message.content or "")

    @vf.intercept
    async def polite(self, request: vf.Request) -> vf.Request | None:
        if self.data.kind != 2:
            return None
        changed = request.model_copy(deep=True)
        for message in changed.messages:
            if message.role == "user" and message.content == "rude":
                message.content = "please"
        return changed

    @vf.reward(weight=0.5)
    async def order(self, trace: vf.Trace) -> float:
        return float(trace.state.seen == ["setup", "finalize:hello"])

    @vf.reward(weight=2.0)
    async def parts(self, trace: vf.Trace) -> dict:
        return {"first": 0.25, "second": 0.5}

    @vf.metric
    async def said(self, trace: vf.Trace, runtime) -> float:
        return float(len(await runtime.read("note.txt")) + len(trace.last_reply or ""))


class ProbeTaskset(vf.Taskset[ProbeTask, vf.TasksetConfig]):
    def load(self):
        for kind in range(5):
            timeout = vf.TaskTimeout(agent=0.5) if kind == 4 else vf.TaskTimeout()
            data = ProbeData(prompt=f"q{kind}", system_prompt="sys", kind=kind, timeout=timeout)
            yield ProbeTask(data, self.config.task)


class ProbeConfig(vf.EnvConfig):
    solver: vf.AgentConfig = vf.AgentConfig(max_turns=4)
    judge: vf.AgentConfig = vf.AgentConfig()


class ProbeEnv(vf.Env[ProbeConfig]):
    async def setup(self, agents):
        agents.judge.trainable = False

    async def run(self, task, agents):
        if task.data.kind == 3:
            await asyncio.gather(agents.solver.run(task), agents.solver.run(task))
        else:
            async with agents.solver.interaction(task) as interaction:
                segment = await interaction.turn()
                for turn in range(9):
                    segment = await interaction.turn("rude" if turn == 0 else f"more {turn}")
                    if segment.terminated:
                        break
        await agents.judge.run(vf.Task(vf.TaskData(prompt="judge this")))

    async def finalize(self, task, episode):
        for trace in episode.traces:
            if trace.agent.name == "solver":
                trace.record_reward("judged", 1.0, 0.1)


__all__ = ["ProbeEnv", "ProbeTaskset"]
