"""Configuration from files and flags."""

from pathlib import Path

import pytest

from trainsmith.config.commands import EpisodeConfig, JobConfig
from trainsmith.config.loader import load
from trainsmith.errors import UserError


def test_a_flag_wins_over_a_file_over_a_default(tmp_path: Path) -> None:
    """Guards against the wrong order of precedence."""
    file = tmp_path / "job.toml"
    file.write_text('task = "strings/a@0"\nseed = 3\n[engine]\ndtype = "float32"\n')
    config = load(JobConfig, ["@", str(file), "--seed", "4"], prog="p")
    assert (config.task, config.seed, config.engine.dtype, config.engine.device) == (
        "strings/a@0",
        4,
        "float32",
        "auto",
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--task"),
        (["--task", "x", "--bogus", "1"], "--bogus"),
        (["--task", "x", "--seed", "many"], "--seed"),
        (["--task", "x", "--jail.kind", "paper"], "--jail.kind"),
        (["@", "/nonexistent/file.toml"], "/nonexistent/file.toml"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(arguments: list[str], says: str) -> None:
    """Guards against multi-line boxes and raw pydantic errors."""
    with pytest.raises(UserError) as caught:
        load(JobConfig, arguments, prog="trainsmith job run")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_broken_toml_says_where(tmp_path: Path) -> None:
    """Guards against a syntax error without its line."""
    file = tmp_path / "x.toml"
    file.write_text("task = \n")
    with pytest.raises(UserError, match="line 1"):
        load(EpisodeConfig, ["@", str(file)], prog="p")


def test_configurations_are_frozen() -> None:
    """Guards against a setting that changes under a running job."""
    config = load(JobConfig, ["--task", "x"], prog="p")
    with pytest.raises(ValueError, match="frozen"):
        config.seed = 2  # type: ignore[misc]


def test_what_is_no_text_file_is_one_line(tmp_path: Path) -> None:
    """Guards against a traceback for a folder or a binary file in a file's place."""
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for file in (tmp_path, tmp_path / "binary.toml"):
        with pytest.raises(UserError, match="cannot be read"):
            load(JobConfig, ["@", str(file)], prog="p")
