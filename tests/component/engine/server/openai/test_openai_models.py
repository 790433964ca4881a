"""Which models there are, and that a trained one can be named by any protocol's client."""

import asyncio

import openai
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
        training = service.create_lora_training_client(base_model=spoken.model, rank=8).result()
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


async def test_many_chat_while_one_trains(spoken, replies):
    """Guards against training that holds up or changes what the base says, and chats that stop training."""
    service = tinker.ServiceClient(base_url=spoken.url, api_key=spoken.token)

    def train():
        training = service.create_lora_training_client(base_model=spoken.model, rank=8).result()
        for _ in range(10):
            training.forward_backward([datum([1, 2, 3] * 30, 4)] * 8, "cross_entropy")
            training.optim_step(types.AdamParams(learning_rate=0.01)).result()
        return training.save_weights_for_sampler(name="busy").result().path

    async with openai.AsyncOpenAI(base_url=f"{spoken.url}/v1", api_key=spoken.token, max_retries=0) as client:
        training = asyncio.create_task(asyncio.to_thread(train))
        asked = {"messages": [{"role": "user", "content": "text"}], "temperature": 0}
        answers = await asyncio.gather(
            *(client.chat.completions.create(model="parrot", **asked) for _ in range(64))
        )
        assert (await training).startswith("tinker://")
    service.holder.close()
    assert {answer.choices[0].message.content for answer in answers} == {replies["text"]}
