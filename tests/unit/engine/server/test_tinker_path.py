"""Ids and paths that become files' names."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsmith.engine.server.tinker_path import Kind, TinkerPath, file_name, is_run, is_sampler, is_session
from trainsmith.errors import UserError

RUN = "0123456789abcdef:train:0"


def test_a_path_is_read_as_it_was_written():
    """Guards against a path that is saved under one name and looked for under another."""
    path = TinkerPath(RUN, Kind.SAMPLER, "step-10.final")
    assert TinkerPath.parse(str(path)) == path
    assert str(path) == f"tinker://{RUN}/sampler_weights/step-10.final"
    place = Path("runs", "0123456789abcdef_train_0", "sampler_weights", "step-10.final")
    assert path.within(Path("runs")) == place


@given(st.text(alphabet="/.\\:%0aA\x00~- ", max_size=30), st.text(alphabet="/.\\:%0aA\x00~-\n", max_size=12))
def test_no_path_leaves_its_directory(run, name):
    """Guards against any mix of dots, slashes and the like that is taken for a name."""
    for text in (f"tinker://{run}/weights/{name}", f"tinker://{RUN}/weights/{name}", f"tinker://{run}"):
        try:
            place = TinkerPath.parse(text).within(Path("/state/runs"))
        except UserError:
            continue
        assert place.resolve().parts[:3] == ("/", "state", "runs") and len(place.resolve().parts) == 6


@pytest.mark.parametrize(
    "text",
    ["", "tinker://", f"tinker://{RUN}/weights", f"tinker://{RUN}/weights/a/b", f"http://{RUN}/weights/a"],
)
def test_other_paths_are_refused(text):
    """Guards against a path of another kind that is half understood."""
    with pytest.raises(UserError):
        TinkerPath.parse(text)


def test_ids_are_told_apart():
    """Guards against an id with a newline or a part too many, which would pass for another's."""
    assert is_session("0123456789abcdef") and is_run(RUN) and is_sampler("0123456789abcdef:sample:3")
    for wrong in (RUN + "\n", RUN + ":1", "x" + RUN, RUN.upper(), "0123456789abcdef:train:٣"):
        assert not is_run(wrong)
    assert not is_session("0123456789abcdef\n") and not is_sampler(RUN)
    assert file_name(RUN) == "0123456789abcdef_train_0"
