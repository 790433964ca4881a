"""Hidden scores of bases and of trained weights: taken on this process's policies, kept in the ledger."""

from __future__ import annotations

from pathlib import Path

from trainsmith import bases, families, paths
from trainsmith.config.grading import GradingConfig
from trainsmith.grading import examples
from trainsmith.grading.answers import Answer, answer
from trainsmith.grading.baselines import BaseScore, ScoreKey, baselines, score_key
from trainsmith.grading.grader import grade
from trainsmith.grading.weights import check_weights
from trainsmith.ledger import Ledger
from trainsmith.progress import Listener, Phase, Progress, silent
from trainsmith.records import HiddenScore, Item, Task
from trainsmith.rollout.policies import LoadedPolicy, Policies


class Evaluator:
    """Grades models on a task's hidden items; every score is taken once a ledger."""

    def __init__(self, ledger: Ledger, policies: Policies, config: GradingConfig) -> None:
        self._ledger = ledger
        self._policies = policies
        self.config = config
        self._items: dict[str, tuple[Item, ...]] = {}

    def items(self, task: Task) -> tuple[Item, ...]:
        """The task's hidden items; they stay in this process."""
        if task.id not in self._items:
            self._items[task.id] = families.hidden_items(task, paths.secret())
        return self._items[task.id]

    def items_key(self, task: Task) -> str:
        """Fingerprint of the task's hidden items."""
        return families.items_key(self.items(task))

    async def bases(self, task: Task, listen: Listener = silent) -> tuple[BaseScore, ...]:
        """Hidden scores of the task's untrained bases, in the task's order."""
        keys = [self._key(task, base, bases.get(base).revision) for base in task.bases]

        async def measure(base: str) -> HiddenScore:
            listen(
                Progress(Phase.BASELINE, f"scoring untrained {base} on {task.evaluation.items} hidden items")
            )
            policy = await self._policies.untrained(base)
            return await self._grade(policy, task, f"{base}@{bases.get(base).revision}")

        return await baselines(keys, self._ledger.scores, measure)

    async def trained(self, task: Task, base: str, job: str, weights: Path) -> HiddenScore:
        """The hidden score of the weights that a job (by identity) trained. The policy holds them afterwards.

        Raises WeightsRejected for a file that is not the base's tensors with other finite values.
        """
        policy = await self._policies.get(base)
        info = await self._policies.call(lambda: check_weights(weights, policy.directory))
        key = self._key(task, job, info.sha256)
        await policy.load_weights(weights)
        kept = self._ledger.scores.score(key)
        if kept is not None:
            return kept
        score = await self._grade(policy, task, info.sha256)
        self._ledger.scores.keep_score(key, score)
        return score

    async def examples(self, task: Task, base: str, weights: Path | None, folder: Path) -> None:
        """Write what the model says to the public examples before and after training."""
        policy = await self._policies.get(base)
        after = None
        if weights is not None:
            await policy.load_weights(weights)
            after = await self._answers(policy, task)
        await policy.reset()
        before = await self._answers(policy, task)
        examples.write(folder, examples.pair(task, base, before, after))

    async def _answers(self, policy: LoadedPolicy, task: Task) -> tuple[Answer, ...]:
        return await self._policies.call(lambda: answer(policy.policy, task, task.examples, self.config.seed))

    async def _grade(self, policy: LoadedPolicy, task: Task, model: str) -> HiddenScore:
        items = self.items(task)
        return await self._policies.call(
            lambda: grade(policy.policy, task, items, model=model, config=self.config)
        )

    def _key(self, task: Task, model: str, revision: str) -> ScoreKey:
        return score_key(
            task, model, revision, self.items_key(task), self.config, engine=self._policies.engine
        )
