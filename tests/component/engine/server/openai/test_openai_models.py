"""Which models there are, and that a trained one can be named by any protocol's client."""

import pytest
import tinker
from tinker import types

pytestmark = pytest.mark.component


def datum(tokens, target):
    """Teach one token after each."""
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens),
        loss_fn_inputs={"target_tokens": [target] * len(tokens), "weights": [1.0] * len(tokens)},
    )


def test_the_base_is_listed(client, spoken):
    """Guards against a list without the id that requests take, or the context that verifiers reads."""
    cards = {card.id: card for card in client.models.list()}
    assert {spoken.model, "parrot"} <= set(cards)
    assert cards["parrot"].max_model_len == 2048
    assert client.models.retrieve(spoken.model).id == spoken.model


def test_what_tinker_has_trained_is_served(client, spoken):
    """Guards against a checkpoint that is not listed, and a name that silently samples the base."""
    service = tinker.ServiceClient(base_url=spoken.url, api_key=spoken.token)
    try:
        training = service.create_lora_training_client(base_model=spoken.model, rank=8)
        letter = client.completions.create(
            model="parrot", prompt="z", max_tokens=1, extra_body={"return_token_ids": True}
        ).choices[0]
        (z,) = letter.prompt_token_ids
        for _ in range(20):
            training.forward_backward([datum(letter.prompt_token_ids * 4, z)], "cross_entropy")
            training.optim_step(types.AdamParams(learning_rate=0.03)).result()
        path = training.save_weights_for_sampler(name="zs").result().path
    finally:
        service.holder.close()
    assert path in {card.id for card in client.models.list()}
    assert client.models.retrieve(path).parent == spoken.model
    options = {"prompt": "zzzz", "max_tokens": 4, "temperature": 0}
    assert client.completions.create(model=path, **options).choices[0].text == "zzzz"
    assert client.completions.create(model="parrot", **options).choices[0].text != "zzzz"
