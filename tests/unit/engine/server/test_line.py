"""The order of a run's requests."""

import asyncio
import itertools

import pytest

from trainsmith.engine.server.tinker.line import Line


@pytest.mark.parametrize("order", list(itertools.permutations([1, 2, 3])))
async def test_any_order_of_arrival_becomes_the_order_of_numbers(order):
    """Guards against a step that overtakes the gradient before it."""
    line, done = Line(), []

    async def request(number):
        async with line.turn(number):
            await asyncio.sleep(0)
            done.append(number)

    tasks = []
    for number in order:
        tasks.append(asyncio.create_task(request(line.number(number))))
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert done == [1, 2, 3]
    assert line.is_over(3) and not line.is_over(4)


async def test_a_failure_passes_the_turn_on():
    """Guards against one failed request that blocks its run for good."""
    line = Line()
    with pytest.raises(ValueError, match="broken"):
        async with line.turn(line.number(1)):
            raise ValueError("broken")
    async with line.turn(line.number(2)):
        pass
    assert line.number(None) == 3
