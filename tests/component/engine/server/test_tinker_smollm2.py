"""The SDK against a server of the real 135M model."""

import numpy as np
import pytest
from tinker import types

pytestmark = [
    pytest.mark.component,
    pytest.mark.slow,
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def test_sampler_and_learner_agree_and_a_step_teaches(tmp_path, start_server, clients):
    """Guards against what tiny models hide: real sizes, real tokens, peaked distributions."""
    server = start_server("smollm2-135m", tmp_path / "state")
    client = clients(server)
    run = client.create_lora_training_client(server.model, rank=8, seed=1).result()
    tokenizer = run.get_tokenizer()
    text = "<|im_start|>user\nName a colour.<|im_end|>\n<|im_start|>assistant\n"
    prompt = tokenizer.encode(text)
    sampler = run.save_weights_and_get_sampling_client().result()
    params = types.SamplingParams(max_tokens=24, seed=3)
    sequences = sampler.sample(types.ModelInput.from_ints(prompt), 6, params).result().sequences
    lead = len(prompt) - 1
    data = []
    for number, sequence in enumerate(sequences):
        tokens = prompt + list(sequence.tokens)
        advantage = 1.0 if number < 3 else -1.0
        inputs = {
            "target_tokens": np.asarray(tokens[1:]),
            "logprobs": np.asarray([0.0] * lead + list(sequence.logprobs), dtype=np.float32),
            "advantages": np.asarray([0.0] * lead + [advantage] * len(sequence.tokens), dtype=np.float32),
        }
        data.append(types.Datum(model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs))
    done = run.forward_backward(data, "ppo").result()
    run.optim_step(types.AdamParams(learning_rate=1e-4)).result()
    read = [np.asarray(each["logprobs"].data)[lead:] for each in done.loss_fn_outputs]
    gaps = [
        np.abs(line - np.asarray(each.logprobs)).max() for line, each in zip(read, sequences, strict=True)
    ]
    assert max(gaps) < 1e-4
    assert done.metrics["mismatch_kl:mean"] < 1e-8
    after = run.forward(data, "ppo").result().loss_fn_outputs
    gained = [
        float((np.asarray(new["logprobs"].data)[lead:] - old).sum())
        for new, old in zip(after, read, strict=True)
    ]
    assert sum(gained[:3]) > 0 > sum(gained[3:])
