"""Every Triton kernel against plain torch, in Triton's interpreter or on a GPU. Skipped without Triton."""

import os

import pytest
import torch
import torch.nn.functional as F

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton")

import numpy as np  # noqa: E402

from trainsmith.engine.cuda.kernels.choose import Drawing, choose  # noqa: E402
from trainsmith.engine.cuda.kernels.decode_attention import (  # noqa: E402
    AttentionShape,
    DecodeRows,
    Parts,
    decode_attention,
)
from trainsmith.engine.cuda.kernels.normalise import add_norm, gated_silu  # noqa: E402
from trainsmith.engine.cuda.kernels.tree_attention import tree_attention  # noqa: E402
from trainsmith.engine.randomness import uniforms  # noqa: E402
from trainsmith.engine.rotary import rotate  # noqa: E402
from trainsmith.engine.token_tree import build_tree  # noqa: E402

pytestmark = pytest.mark.component


def ints(*values):
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


@pytest.mark.parametrize(("rows", "size"), [(1, 64), (5, 576), (3, 100)])
@pytest.mark.parametrize("added", [True, False])
def test_add_norm_equals_torch(rows, size, added):
    """Guards against a sum that is not kept, a wrong mean for odd sizes, a lost epsilon."""
    x, y, weight = (torch.randn(*shape, device=DEVICE) for shape in ((rows, size), (rows, size), (size,)))
    expected = x + y if added else x.clone()
    normed = add_norm(x, y if added else None, weight, 0.1, torch.float32)
    torch.testing.assert_close(x, expected)
    torch.testing.assert_close(normed, F.rms_norm(expected, (size,), weight, 0.1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "size"), [(1, 48), (4, 1536), (3, 112)])
def test_gated_silu_equals_torch(rows, size):
    """Guards against gate and up exchanged, and against columns beyond one block."""
    stacked = torch.randn(rows, 2 * size, device=DEVICE)
    gate, up = stacked.chunk(2, dim=-1)
    torch.testing.assert_close(gated_silu(stacked, torch.float32), F.silu(gate) * up, rtol=1e-5, atol=1e-6)


def by_torch(qkv, norms, angles, shape, prompt, drawn, history):
    """Attention of one row with its cached keys and values [T, G, K] spelled out."""
    heads, groups, size = shape.heads, shape.kv_heads, shape.head_dim
    q, k, v = qkv.view(-1, size).split([heads, groups, groups])
    if norms:
        q, k = (F.rms_norm(x, (size,), w, shape.norm_epsilon) for x, w in zip((q, k), norms, strict=True))
    cos, sin = (x[prompt + drawn - 1] for x in angles)
    q, k = rotate(q, cos, sin), rotate(k, cos, sin)
    keys, values = torch.cat((history[0], k[None])), torch.cat((history[1], v[None]))
    out = F.scaled_dot_product_attention(
        q[:, None], keys.transpose(0, 1), values.transpose(0, 1), enable_gqa=True
    )
    return out.flatten(), k, v


@pytest.mark.parametrize(
    ("heads", "groups", "size", "normed"),
    [(9, 3, 64, False), (4, 2, 24, True), (4, 4, 128, True), (14, 2, 16, False)],
)
def test_decode_attention_equals_torch(heads, groups, size, normed):
    """Guards against errors of rotation, head norm, masks, odd sizes, the sum of parts, the cache's cells."""
    torch.manual_seed(heads)
    shape = AttentionShape(heads, groups, size, 1e-5)
    header, tails, drawn, limit = 70, (3, 0, 41), (1, 4, 40, 2, 7), (9, 9, 41, 2, 9)
    prompt_of_row = (0, 0, 1, 2, 2)
    tokens = 400
    cache = tuple(torch.randn(groups, tokens, size, device=DEVICE) for _ in range(2))
    first_tail = (100, 110, 120)
    own = (170, 180, 190, 240, 250)
    jobs = [[0, 3, 5, 30, 0], [0, 3, 35, 40, 1], [3, 2, 5, 30, 0], [3, 2, 35, 40, 1]]
    jobs += [[0, 2, 100, 3, 2], [3, 2, 120, 41, 2], [0, 0, 0, 0, 0]]
    prompts = [header + tails[p] for p in prompt_of_row]
    rows = DecodeRows(
        ints(*prompts), ints(*drawn), ints(*limit), ints(*own), ints(3, 3, 2, 3, 3), ints(*jobs).view(-1, 5)
    )
    norms = tuple(torch.rand(size, device=DEVICE) + 0.5 for _ in range(2)) if normed else None
    angles = tuple(torch.randn(200, size, device=DEVICE) for _ in range(2))
    parts = Parts(
        torch.full((4, 8, heads, size), float("nan"), device=DEVICE),
        torch.full((4, 8, heads), float("nan"), device=DEVICE),
    )
    before = [side.clone() for side in cache]
    qkv = torch.randn(5, (heads + 2 * groups) * size, device=DEVICE)
    out = decode_attention(qkv, norms, angles, rows, cache, parts, shape, torch.float32)
    for row, prompt in enumerate(prompt_of_row):
        places = [*range(5, 75), *range(first_tail[prompt], first_tail[prompt] + tails[prompt])]
        places += range(own[row], own[row] + drawn[row] - 1)
        history = [side[:, places].transpose(0, 1) for side in before]
        expected, key, value = by_torch(qkv[row], norms, angles, shape, prompts[row], drawn[row], history)
        torch.testing.assert_close(out[row], expected, rtol=1e-4, atol=1e-5)
        cell = own[row] + drawn[row] - 1
        if drawn[row] < limit[row]:
            before[0][:, cell], before[1][:, cell] = key, value
    for now, expected in zip(cache, before, strict=True):
        torch.testing.assert_close(now, expected, rtol=1e-5, atol=1e-5)


def drawing(count, window=4, temperature=1.0, top_p=1.0, top_k=0, drawn=0):
    return Drawing(
        torch.full((count,), temperature, device=DEVICE),
        torch.full((count,), top_p, device=DEVICE),
        torch.full((count,), top_k, dtype=torch.int32, device=DEVICE),
        torch.arange(count, device=DEVICE) * 2**40 - 5,
        torch.full((count,), 100, dtype=torch.int32, device=DEVICE),
        torch.zeros(count, dtype=torch.int64, device=DEVICE),
        torch.full((count,), drawn, dtype=torch.int32, device=DEVICE),
        torch.zeros(count, window, dtype=torch.int64, device=DEVICE),
        torch.zeros(count, window, device=DEVICE),
    )


def kept_by_sorting(logits, temperature, top_p, top_k):
    """The tokens that top-k and then top-p leave, by definition."""
    order = logits.argsort(descending=True)[: top_k or len(logits)]
    shares = (logits[order].double() / temperature).softmax(dim=-1)
    before = shares.cumsum(dim=-1) - shares
    return order[before < top_p]


@pytest.mark.parametrize("vocabulary", [300, 8192, 20011])
@pytest.mark.parametrize(
    ("temperature", "top_p", "top_k"),
    [(1.0, 1.0, 0), (0.7, 1.0, 0), (1.3, 0.8, 0), (1.0, 1.0, 7), (0.9, 0.6, 20)],
)
def test_choose_inverts_the_cumulative_distribution(vocabulary, temperature, top_p, top_k):
    """Guards against a token off by one, the wrong uniform number, filters that keep too much or too little,
    and logprobs of the filtered distribution."""
    torch.manual_seed(vocabulary)
    count, drawn = 6, 5
    logits = torch.randn(count, vocabulary, device=DEVICE) * 3
    rows = drawing(count, 4, temperature, top_p, top_k, drawn)
    everyone = torch.arange(count, dtype=torch.int32, device=DEVICE)
    choose(logits, everyone, everyone, rows)
    numbers = uniforms([int(seed) for seed in rows.seed_B], drawn + 1)[:, drawn]
    logprobs = (logits / temperature).double().log_softmax(dim=-1).cpu()
    for row in range(count):
        kept = kept_by_sorting(logits[row].cpu(), temperature, top_p, top_k).sort().values
        ends = logprobs[row, kept].exp().cumsum(dim=-1)
        expected = kept[int((ends <= numbers[row] * ends[-1]).sum())]
        assert int(rows.token_B[row]) == int(expected) == int(rows.out_tokens_BW[row, drawn % 4])
        assert float(rows.out_logprobs_BW[row, drawn % 4]) == pytest.approx(
            float(logprobs[row, expected]), abs=1e-5
        )
    assert rows.drawn_B.tolist() == [drawn + 1] * count


def test_greedy_rows_finished_rows_and_shared_logits():
    """Guards against greedy rows that draw, finished rows that move on, and rows that read other logits."""
    logits = torch.randn(2, 777, device=DEVICE)
    rows = drawing(4, temperature=0.0, top_p=0.5)
    rows.limit_B[3] = 0
    choose(logits, ints(0, 1, 1, 0), ints(1, 0, 2, 3), rows)
    best = logits.argmax(dim=-1).tolist()
    assert rows.token_B.tolist() == [best[1], best[0], best[1], 0]
    assert rows.drawn_B.tolist() == [1, 1, 1, 0]
    expected = logits.log_softmax(dim=-1)[0, best[0]]
    assert float(rows.out_logprobs_BW[1, 0]) == pytest.approx(float(expected), abs=1e-5)


def test_uniform_numbers_are_numpys():
    """Guards against another stream than the CPU's: two tokens of equal weight follow the uniform number."""
    count = 40
    logits = torch.zeros(1, 2, device=DEVICE)
    rows = drawing(count, window=9)
    everyone = torch.arange(count, dtype=torch.int32, device=DEVICE)
    for _ in range(9):
        choose(logits, torch.zeros_like(everyone), everyone, rows)
    numbers = uniforms([int(seed) % 2**64 for seed in rows.seed_B], 9)
    assert np.array_equal(rows.out_tokens_BW.cpu().numpy(), (numbers >= 0.5).numpy())


@pytest.mark.parametrize(("heads", "groups", "size"), [(3, 1, 64), (4, 2, 24)])
def test_tree_attention_and_its_gradients_equal_torchs(heads, groups, size):
    """Guards against tokens that see a sibling, seen blocks that are skipped, wrong sums over heads."""
    torch.manual_seed(size)
    shared = list(range(70))
    tree = build_tree([[*shared, 100 + i, *range(200, 220 + i), 300 + j] for i in range(3) for j in range(2)])
    end = torch.from_numpy(tree.end_T).to(DEVICE)
    count = len(tree)
    q, k, v = (
        torch.randn(count, n, size, device=DEVICE, requires_grad=True) for n in (heads, groups, groups)
    )
    gradient = torch.randn(count, heads * size, device=DEVICE)
    row = torch.arange(count, device=DEVICE)
    mask = (row[None, :] <= row[:, None]) & (row[:, None] < end[None, :])
    expected = F.scaled_dot_product_attention(
        *(x.transpose(0, 1) for x in (q, k, v)), attn_mask=mask, enable_gqa=True
    )
    expected = expected.transpose(0, 1).flatten(1)
    ours = tree_attention(q, k, v, end.int())
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)
    for mine, theirs in zip(
        torch.autograd.grad(ours, (q, k, v), gradient),
        torch.autograd.grad(expected, (q, k, v), gradient),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
