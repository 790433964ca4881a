"""The configuration of each command: what `trainsmith <command> [@ file.toml] [--dotted.key value]` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from trainsmith.config.base import Config
from trainsmith.config.engine import EngineConfig
from trainsmith.config.grading import GradingConfig
from trainsmith.config.jail import JailConfig
from trainsmith.config.probe import ProbeConfig
from trainsmith.config.reward import RewardConfig
from trainsmith.config.trainer import EmbeddedTrainerConfig, TrainerConfig


class RunConfig(Config):
    """What every command that runs jobs has in common."""

    run: str = "local"
    """Name of the run; its directory is `<runs>/<run>`."""

    runs: Path = Path("runs")
    """Where run directories are kept."""

    engine: EngineConfig = EngineConfig()
    jail: JailConfig = JailConfig()
    probe: ProbeConfig = ProbeConfig()
    trainer: TrainerConfig = EmbeddedTrainerConfig()
    grading: GradingConfig = GradingConfig()
    reward: RewardConfig = RewardConfig()


class EpisodeConfig(RunConfig):
    """`trainsmith episode`: one agent plays one task."""

    task: str
    """Task id, `family/kind@seed`."""

    agent: str = "reference"
    """Who plays: `reference` or `broken`."""

    start: Literal["empty", "skeleton", "working"] = "empty"
    """What the workspace holds at first."""

    seed: int | None = Field(None, ge=0)
    """Training seed; unset: drawn by the episode's id from `inner_seeds`."""

    inner_seeds: int = Field(4, ge=1)
    """Size of the set from which an episode draws its training seed."""

    repeat: int = Field(0, ge=0)
    """The how-maniest episode of this agent, task and start in this run."""


class DemoConfig(EpisodeConfig):
    """`trainsmith demo`: one episode end to end on this machine."""

    run: str = "demo"
    task: str = "strings/last-word@0"
    start: Literal["empty", "skeleton", "working"] = "skeleton"
    seed: int | None = Field(0, ge=0)


class JobInitConfig(Config):
    """`trainsmith job init DIR`: scaffold a job folder."""

    task: str
    """Task id, `family/kind@seed`."""

    start: Literal["empty", "skeleton", "working", "reference"] = "skeleton"
    """What to write: commented files, a mediocre job, or the task's reference job."""


class JobConfig(RunConfig):
    """`trainsmith job validate DIR` and `trainsmith job run DIR`."""

    task: str
    """Task id, `family/kind@seed`."""

    seed: int = Field(0, ge=0)
    """Training seed; another seed is another job."""


class ReportConfig(Config):
    """`trainsmith report RUN`."""

    runs: Path = Path("runs")
    """Where run directories are kept."""

    episode: str = "latest"
    """Episode id, `latest`, or `all`."""


class ListConfig(Config):
    """`trainsmith tasks`, `bases` and `doctor` take no settings of their own."""
