"""Writes train.txt: loss and gradients of LookaheadKV's training on the toys of tests/train_toy.c, by
torch's automatic differentiation in double. Written from the formulae of arXiv 2603.10899 (LoRA on the
appended rows, mean attention over them, normalised over the prompt, KL to the response's), not from
the C code; in the last layer all maps have a LoRA here, and those behind its attention get no
gradient, which the script asserts.

python3 tests/golden/train.py > tests/golden/train.txt        (torch 2.15.0, CPU)
"""
import math

import torch

torch.set_default_dtype(torch.float64)
LAYERS, HEADS, KV, DIM, HIDDEN, FF, TOKENS, RANK, SCALE = 3, 4, 2, 6, 24, 40, 5, 3, 1.5
PROMPTS = (17, 11)
FREQ, LOCAL = torch.tensor([1, 0.25, 0.0625]), 7
SHAPES = {  # in, out
    "q": (HIDDEN, HEADS * DIM), "k": (HIDDEN, KV * DIM), "v": (HIDDEN, KV * DIM), "o": (HEADS * DIM, HIDDEN),
    "gate": (HIDDEN, FF), "up": (HIDDEN, FF), "down": (FF, HIDDEN)}


def numbers(stream, n):
    out = []
    for i in range(n):
        h = ((i + 1) * 2654435761 + stream * 40503) % 2**32
        h ^= h >> 16
        h = h * 0x45D9F3B % 2**32
        h ^= h >> 16
        out.append(h / 2**32 - 0.5)
    return torch.tensor(out)


def stored(stream, n, *shape):
    return (torch.floor(numbers(stream, n) * 256) / 64).reshape(*shape)


class Model:
    """`has`: what an architecture has more than llama, of "bias", "qk_norm", "post_norm", "gelu", "local"."""

    def __init__(self, has=()):
        def norms(first, width, count):
            return [[numbers(100 * (l + 1) + first + i, width) * 0.5 + 1 for i in range(count)] for l in range(LAYERS)]

        self.has = has
        self.norm, self.post, self.head = norms(0, HIDDEN, 2), norms(9, HIDDEN, 2), norms(11, DIM, 2)
        self.bias = [{m: numbers(100 * (l + 1) + 13 + i, SHAPES[m][1]) * 2 for i, m in enumerate("qkv")}
                     for l in range(LAYERS)]
        self.w = [{m: (numbers(100 * (l + 1) + 2 + i, a * b) * 0.75).reshape(b, a)
                   for i, (m, (a, b)) in enumerate(SHAPES.items())} for l in range(LAYERS)]

    def behind(self, l, i, y):  # a branch, before it is added
        return rms(y, self.post[l][i]) if "post_norm" in self.has else y

    def act(self, y):
        return (torch.nn.functional.gelu(y, approximate="tanh") if "gelu" in self.has
                else torch.nn.functional.silu(y))

    def freq(self, l):  # layer 1 is the local one
        return LOCAL ** (-torch.arange(0, DIM, 2) / DIM) if "local" in self.has and l == 1 else FREQ


def parameters(maps, rank):
    """The leaves in the order of the flat vector, and those that are dead."""
    last, sizes = LAYERS - 1, [("embed", -1, "", (TOKENS, HIDDEN))]
    for l in range(LAYERS):
        for m, (a, b) in SHAPES.items():
            if rank and m in maps and (l < last or m in "qk"):
                sizes += [("A", l, m, (rank, a)), ("B", l, m, (b, rank))]
    flat, at, live = numbers(7, sum(math.prod(s[3]) for s in sizes)), 0, {}
    for kind, l, m, shape in sizes:
        live[kind, l, m] = flat[at:at + math.prod(shape)].reshape(shape).clone().requires_grad_()
        at += math.prod(shape)
    dead = {}
    for m, (a, b) in SHAPES.items():
        if rank and m in maps and m not in "qk":
            dead["A", last, m] = numbers(8, rank * a).reshape(rank, a).clone().requires_grad_()
            dead["B", last, m] = numbers(9, rank * b).reshape(b, rank).clone().requires_grad_()
    return live, dead


def rms(x, gain):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * gain


def rotate(x, pos, freq):  # [heads n D]; pairs (i, i + D/2)
    angle = pos[:, None] * freq
    a, b = x[..., :DIM // 2], x[..., DIM // 2:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def sample_loss(model, p, s, window, mse):
    n = PROMPTS[s]
    keys, values = (stored(at + s, LAYERS * KV * n * DIM, LAYERS, KV, n, DIM) for at in (20, 30))
    target = ((torch.floor((numbers(40 + s, LAYERS * HEADS * n) + 0.5) * 1024) + 1) / 1024).reshape(LAYERS, HEADS, n)
    pos = torch.arange(n, n + TOKENS, dtype=torch.float64)
    row, key = torch.arange(n, n + TOKENS)[:, None], torch.arange(n + TOKENS)[None]
    x, total = p["embed", -1, ""], 0

    def linear(l, m, y):
        out = y @ model.w[l][m].T
        if ("A", l, m) in p:
            out = out + SCALE * (y @ p["A", l, m].T) @ p["B", l, m].T
        return out + model.bias[l][m] if "bias" in model.has and m in "qkv" else out

    def heads(y, count):
        return y.reshape(TOKENS, count, DIM).transpose(0, 1)

    for l in range(LAYERS):
        y = rms(x, model.norm[l][0])
        q, k, v = (heads(linear(l, m, y), c) for m, c in (("q", HEADS), ("k", KV), ("v", KV)))
        if "qk_norm" in model.has:
            q, k = rms(q, model.head[l][0]), rms(k, model.head[l][1])
        q, k = rotate(q, pos, model.freq(l)), torch.cat([keys[l], rotate(k, pos, model.freq(l))], 1)
        k, v = (t.repeat_interleave(HEADS // KV, 0) for t in (k, torch.cat([values[l], v], 1)))
        seen = (key <= row) & (row - key < (window if window and l == 1 else 10**6))
        a = torch.softmax((q @ k.transpose(1, 2) * 0.40625).masked_fill(~seen, -math.inf), -1)
        mass = a[:, :, :n].mean(1)
        want = target[l] / target[l].sum(-1, keepdim=True)
        got = mass / mass.sum(-1, keepdim=True)
        if mse:
            total = total + ((n * got - n * want) ** 2).mean(-1).mean() / LAYERS
        else:
            cut = got <= math.exp(-30)
            log = torch.where(cut, torch.tensor(-30.0), torch.log(torch.where(cut, torch.tensor(1.0), got)))
            total = total + (want * (want.log() - log)).sum(-1).mean() / LAYERS
        x = x + model.behind(l, 0, linear(l, "o", (a @ v).transpose(0, 1).reshape(TOKENS, HEADS * DIM)))
        y = rms(x, model.norm[l][1])
        x = x + model.behind(l, 1, linear(l, "down", model.act(linear(l, "gate", y)) * linear(l, "up", y)))
    return total


def main():
    print(f"# tests/golden/train.py, torch {torch.__version__}: case, loss, gradient entries")
    for name, has, maps, rank, window, mse in (
            ("kl", (), SHAPES, RANK, 0, False), ("window", (), "qk", RANK, 9, False), ("mse", (), "", 0, 0, True),
            ("qwen2", ("bias",), SHAPES, 1, 0, False), ("qwen3", ("qk_norm",), SHAPES, 1, 0, False),
            ("gemma3", ("qk_norm", "post_norm", "gelu", "local"), SHAPES, 1, 9, False)):
        model = Model(has)
        live, dead = parameters(tuple(maps), rank)
        loss = sum(sample_loss(model, live | dead, s, window, mse) for s in (0, 1)) / 2
        loss.backward()
        assert all(t.grad is None or not t.grad.any() for t in dead.values())
        grad = torch.cat([t.grad.flatten() for t in live.values()])
        print(f"case {name} {loss.item():.17g} {grad.numel()}")
        for g in grad.tolist():
            print(f"{g:.12g}")


main()
