"""Optimisers and clipping must be torch's and prime-rl's, number by number."""

import pytest
import torch

from trainsmith.engine.optimiser import clip_gradients, make_optimiser
from trainsmith.engine.records import OptimSpec


def run(make, steps=4):
    torch.manual_seed(0)
    tensors = [torch.randn(5, 3, requires_grad=True), torch.randn(7, requires_grad=True)]
    optimiser = make(tensors)
    for step in range(steps):
        for tensor in tensors:
            tensor.grad = torch.sin(tensor.detach() * (step + 1))
        optimiser.step()
    return tensors


class SignByHand:
    def __init__(self, tensors, lr, decay):
        self.tensors, self.lr, self.decay = tensors, lr, decay

    def step(self):
        for tensor in self.tensors:
            tensor.data = tensor.data - self.lr * self.decay * tensor.data - self.lr * tensor.grad.sign()


PLAIN = {
    "adamw": lambda t: torch.optim.AdamW(t, lr=1e-2, betas=(0.8, 0.95), weight_decay=0.1, foreach=False),
    "sgd": lambda t: torch.optim.SGD(t, lr=1e-2, momentum=0.7, nesterov=True, weight_decay=0.1),
    "sign_sgd": lambda t: SignByHand(t, 1e-2, 0.1),
}


@pytest.mark.parametrize("kind", list(PLAIN))
def test_steps_equal_the_plain_optimiser(kind):
    """Guards against keys that reach the wrong parameter of the optimiser."""
    spec = OptimSpec(kind, lr=1e-2, weight_decay=0.1, betas1=0.8, betas2=0.95, momentum=0.7)
    for ours, plain in zip(run(lambda t: make_optimiser(spec, t)), run(PLAIN[kind]), strict=True):
        assert torch.allclose(ours, plain, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("max_norm", [0.5, 100.0, None])
def test_clipping_equals_torch(max_norm):
    """Guards against clipping each tensor by itself, or reporting the norm after clipping."""
    ours = [torch.randn(5, 3, requires_grad=True), torch.randn(7, requires_grad=True)]
    for tensor in ours:
        tensor.grad = torch.randn_like(tensor)
    plain = [tensor.detach().clone().requires_grad_() for tensor in ours]
    for left, right in zip(plain, ours, strict=True):
        left.grad = right.grad.clone()
    expected = torch.nn.utils.clip_grad_norm_(plain, max_norm if max_norm is not None else 1e9)
    assert clip_gradients(ours, max_norm) == pytest.approx(float(expected), rel=1e-6)
    for left, right in zip(plain, ours, strict=True):
        assert torch.allclose(left.grad, right.grad, rtol=1e-6)


def test_a_gradient_that_is_not_finite_is_reported_and_left_alone():
    """Guards against a NaN that clipping would spread to every tensor."""
    tensor = torch.ones(3, requires_grad=True)
    tensor.grad = torch.tensor([1.0, float("nan"), 2.0])
    assert clip_gradients([tensor], 1.0) != clip_gradients([tensor], 1.0)
    assert tensor.grad[0].item() == 1.0
