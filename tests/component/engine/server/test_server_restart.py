"""What must survive when the server is killed and started again."""

import json
import signal

import numpy as np
import pytest
import tinker
from tinker import types

pytestmark = [pytest.mark.component, pytest.mark.filterwarnings("ignore::FutureWarning")]

TOKENS = list(b"the quick brown fox")
PROMPT = types.ModelInput.from_ints(TOKENS[:6])


def datum():
    inputs = {"target_tokens": np.asarray(TOKENS[1:]), "weights": np.ones(len(TOKENS) - 1, dtype=np.float32)}
    return types.Datum(model_input=types.ModelInput.from_ints(TOKENS[:-1]), loss_fn_inputs=inputs)


def train(run, steps):
    for _ in range(steps):
        run.forward_backward([datum()], "cross_entropy")
        run.optim_step(types.AdamParams(learning_rate=1e-2)).result()


def logprobs(run):
    return run.forward([datum()], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data


def sampled(sampler, seed=3):
    params = types.SamplingParams(max_tokens=12, seed=seed)
    return [each.tokens for each in sampler.sample(PROMPT, 2, params).result().sequences]


def restart(servers, old):
    port = old.url.rpartition(":")[2]
    return servers("--port", port)


def test_checkpoints_and_samplers_survive_a_kill(servers, clients):
    """Guards against weights, sampling sessions or the token that live in the server's memory alone."""
    first = servers()
    client = clients(first)
    run = client.create_lora_training_client(first.model, rank=4, seed=1)
    train(run, 3)
    path = run.save_state("kept").result().path
    unnamed = run.save_weights_and_get_sampling_client()
    named = client.create_sampling_client(run.save_weights_for_sampler("named").result().path)
    expected = sampled(unnamed)
    assert sampled(named) == expected
    train(run, 2)
    straight = logprobs(run)
    first.end(signal.SIGKILL)
    second = restart(servers, first)
    assert second.token == first.token
    assert sampled(unnamed) == sampled(named) == expected
    again = clients(second)
    assert sampled(again.create_sampling_client(path)) == expected
    resumed = again.create_training_client_from_state_with_optimizer(path)
    train(resumed, 2)
    assert np.array_equal(logprobs(resumed), straight)
    runs = again.create_rest_client().list_training_runs().result().training_runs
    assert {each.training_run_id for each in runs} == {run.model_id, resumed.model_id}


def test_a_run_that_was_in_memory_is_told_to_go_on_from_a_checkpoint(servers, clients):
    """Guards against a training client that waits for ever, or trains a fresh adapter unawares."""
    first = servers()
    run = clients(first).create_lora_training_client(first.model, rank=4).result()
    first.end(signal.SIGKILL)
    restart(servers, first)
    with pytest.raises(tinker.NotFoundError, match="checkpoint"):
        run.optim_step(types.AdamParams()).result()


def test_samples_in_flight_are_sampled_again(servers, clients):
    """Guards against a client that is left with a lost request: the SDK retries once it is told so."""
    first = servers()
    sampler = clients(first).create_sampling_client(base_model=first.model)
    params = types.SamplingParams(max_tokens=300, seed=1, stop=[])
    asked = [sampler.sample(PROMPT, 4, params) for _ in range(24)]
    first.end(signal.SIGKILL)
    restart(servers, first)
    replies = [each.result() for each in asked]
    assert {tuple(map(len, (s.tokens for s in each.sequences))) for each in replies} == {(300,) * 4}


def test_a_checkpoint_cut_off_in_mid_write_is_not_there(servers, clients):
    """Guards against half a checkpoint that is listed, loaded, or in the way of a whole one."""
    first = servers()
    run = clients(first).create_lora_training_client(first.model, rank=4).result()
    path = run.save_state("torn").result().path
    directory = first.state / "runs" / run.model_id.replace(":", "_") / "weights" / "torn"
    (directory / "checkpoint.json").unlink()
    rest = clients(first).create_rest_client()
    assert rest.list_checkpoints(run.model_id).result().checkpoints == []
    assert run.save_state("torn").result().path == path
    (directory / "checkpoint.json").write_text("{")
    with pytest.raises(tinker.NotFoundError):
        clients(first).create_sampling_client(path).result()


def test_checkpoints_hold_no_pickle(servers, clients):
    """Guards against files that could run code when they are read, or that others may read."""
    first = servers()
    run = clients(first).create_lora_training_client(first.model, rank=4).result()
    train(run, 1)
    run.save_state("whole").result()
    run.save_weights_for_sampler("weights").result()
    files = [file for file in first.state.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} == {".json", ".safetensors", ""}
    assert (first.state / "token").stat().st_mode & 0o777 == 0o600
    for file in files:
        if file.suffix == ".json":
            json.loads(file.read_text())
        elif file.suffix == ".safetensors":
            size = int.from_bytes(file.read_bytes()[:8], "little")
            json.loads(file.read_bytes()[8 : 8 + size])


def test_checkpoints_are_listed_described_and_deleted(servers, clients):
    """Guards against a list that forgets, a deletion that does not delete, and a time to live unheeded."""
    first = servers()
    client = clients(first)
    run = client.create_lora_training_client(first.model, rank=4, user_metadata={"who": "me"}).result()
    paths = [run.save_state(name).result().path for name in ("a", "b")]
    paths.append(run.save_weights_for_sampler("a", ttl_seconds=3600).result().path)
    rest = client.create_rest_client()
    found = rest.list_checkpoints(run.model_id).result().checkpoints
    assert {each.tinker_path for each in found} == set(paths)
    assert [each.expires_at is not None for each in found] == [True, False, False]
    assert all(each.size_bytes > 1000 for each in found)
    described = rest.get_training_run(run.model_id).result()
    assert described.lora_rank == 4 and described.user_metadata == {"who": "me"}
    assert described.last_checkpoint.tinker_path == paths[1]
    assert described.last_sampler_checkpoint.tinker_path == paths[2]
    assert rest.get_weights_info_by_tinker_path(paths[0]).result().lora_rank == 4
    sampler = client.create_sampling_client(paths[1]).result()
    sampled(sampler)
    rest.delete_checkpoint_from_tinker_path(paths[1]).result()
    with pytest.raises(tinker.NotFoundError):
        client.create_sampling_client(paths[1]).result()
    with pytest.raises(tinker.RequestFailedError, match="no checkpoint"):
        sampled(sampler)
    assert len(rest.list_user_checkpoints().result().checkpoints) == 2
    with pytest.raises(tinker.RequestFailedError, match="name"):
        run.save_state("a").result()
    assert run.save_state("b").result().path == paths[1]


def test_a_finished_session_leaves_only_its_checkpoints(servers, clients):
    """Guards against memory and disk that unnamed weights of past clients fill."""
    first = servers()
    client = clients(first)
    run = client.create_lora_training_client(first.model, rank=4).result()
    path = run.save_state("kept").result().path
    samplers = [run.save_weights_and_get_sampling_client().result() for _ in range(3)]
    assert len(list(first.state.glob("runs/*/unnamed/*"))) == 3
    assert sampled(samplers[0]) == sampled(samplers[2])
    client.close("success").result()
    assert list(first.state.glob("runs/*/unnamed/*")) == list(first.state.glob("samplers/*")) == []
    assert sampled(clients(first).create_sampling_client(path))


def test_unnamed_weights_are_bounded(servers, clients):
    """Guards against a long run that fills the disk, and against a reference sampler that goes with it."""
    first = servers()
    run = clients(first).create_lora_training_client(first.model, rank=4).result()
    reference = run.save_weights_and_get_sampling_client().result()
    expected = sampled(reference)
    for _ in range(20):
        latest = run.save_weights_and_get_sampling_client()
        assert sampled(reference) == sampled(latest) == expected
    assert len(list(first.state.glob("runs/*/unnamed/*"))) == 16
