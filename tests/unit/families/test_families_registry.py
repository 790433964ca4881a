"""Task ids, plug-ins, and what importing families costs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainsmith import families
from trainsmith.errors import MachineError, UserError
from trainsmith.families import registry
from trainsmith.records import Tier

DOCS = Path(__file__).parents[3] / "docs" / "families.md"


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("strings/last-wrod@0", "strings/last-word@0"),
        ("string/last-word@3", "strings/last-word@3"),
        ("arithmetic/pirce@1", "arithmetic/price@1"),
        ("cooking/soup@0", "strings/last-word@0"),
        ("upper-case", "strings/upper-case@0"),
        ("price@0", "arithmetic/price@0"),
        ("arithmetic/sequence", "arithmetic/sequence@0"),
        ("strings/decod", "strings/decode@0"),
    ],
)
def test_an_unknown_task_names_the_nearest(asked: str, named: str) -> None:
    """Fault: a mistyped id leaves the user to guess."""
    with pytest.raises(UserError) as caught:
        families.task(asked)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "asked",
    ["", "strings", "strings/last-word", "strings/last-word@", "strings/last-word@-1", "a/b@01", "a b/c@1"],
)
def test_a_malformed_id_says_the_form(asked: str) -> None:
    """Fault: half an id is taken for another one, or raises something else."""
    with pytest.raises(UserError, match="family/kind@seed"):
        families.task(asked)


def test_every_kind_is_listed_once() -> None:
    """Fault: `trainsmith tasks` leaves out a kind, or a tier shows another's."""
    ids = families.task_ids()
    assert len(ids) == len(set(ids)) >= 6
    assert families.task_ids(Tier.MICRO) == ids
    assert families.task_ids(Tier.SMALL) == ()
    assert [row.id for row in families.listing()] == list(ids)
    for name in ("strings", "arithmetic"):
        assert sum(task_id.startswith(f"{name}/") for task_id in ids) >= 3


def test_listing_imports_nothing_heavy() -> None:
    """Fault: `trainsmith tasks` waits for torch, verifiers or reasoning-gym."""
    code = (
        "import sys; from trainsmith import families; families.listing(); families.task('strings/decode@0');"
        "heavy = ('torch', 'transformers', 'verifiers', 'reasoning_gym', 'scipy');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, where a test installs a distribution; forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.families.cache_clear()
    yield tmp_path
    registry.families.cache_clear()


def install(folder: Path, name: str, text: str) -> None:
    """What pip does with a wheel that has one module and one entry point."""
    (folder / f"{name}_family.py").write_text(text)
    info = folder / f"{name}_family-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-family\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[trainsmith.families]\n{name} = {name}_family:FAMILY\n")


def test_the_documented_plug_in_works(plug_in: Path) -> None:
    """Fault: docs/families.md shows a family that cannot be installed, or not in 60 lines."""
    text = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)[0]
    assert len(text.splitlines()) < 60
    install(plug_in, "colours", text)
    task = families.task("colours/mix@5")
    items = families.hidden_items(task, b"secret")
    assert len(items) == 256
    assert families.score(task, items[0], (items[0].answer,)) == 1.0
    assert [file.path for file in families.reference_job(task)] == ["rl.toml", "environment/mix/__init__.py"]
    assert "colours/mix@0" in families.task_ids()


@pytest.mark.parametrize("text", ["raise RuntimeError('boom')", "FAMILY = 3", "import sys\nOTHER = 1"])
def test_a_broken_plug_in_is_named(plug_in: Path, text: str) -> None:
    """Fault: one bad plug-in breaks everything without saying which."""
    install(plug_in, "broken", text)
    with pytest.raises(MachineError, match="broken_family"):
        families.task_ids()
