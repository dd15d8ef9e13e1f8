"""The tensors of presses.h, in numpy, as the presses of kvpress read them. Run by make_kvpress_more.py only."""
import math
import types

import numpy as np
import torch

from toy import mix

KEY, VALUE, QUERY, KEY_MEAN, QUERY_MEAN, OUTPUT, FILTER, GATE, KEEP = range(9)
D, E, THETA, POINTS = 8, 6, 10000.0, 99
M64 = (1 << 64) - 1


def f32(x):
    return np.asarray(x, dtype=np.float32).astype(float)


class Stream:
    """A lane's random numbers as mini.c seeds them: xoshiro256**."""

    def __init__(self, lane):
        self.s = [int(mix(np.uint64(4 * lane + k))) for k in range(4)]

    def bits(self):
        def turn(x, k):
            return ((x << k) | (x >> (64 - k))) & M64
        s = self.s
        out = turn(s[1] * 5 & M64, 7) * 9 & M64
        t = s[1] << 17 & M64
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = turn(s[3], 45)
        return out

    def real(self):
        return (self.bits() >> 11) * 2.0 ** -53

    def normal(self, *shape):
        def one():
            radius = math.sqrt(-2 * math.log(1 - self.real()))
            return radius * math.cos(2 * math.pi * self.real())
        return torch.tensor([one() for _ in range(math.prod(shape))], dtype=torch.float64).reshape(shape)


class Presses:
    """name is SEED/L/H/G/N. With noise > 0 all numbers are off by about that share."""

    def __init__(self, name, noise=0.0, rng=None):
        self.name = name
        self.seed, self.L, self.H, self.G, self.N = map(int, name.split("/"))
        self.R = self.H // self.G
        blur = (lambda x: x * (1 + noise * rng.standard_normal(x.shape))) if noise else (lambda x: x)
        n, L = self.N, self.L
        self.k0 = blur(self.draw(KEY, L, self.G, n, D) + self.draw(KEY_MEAN, L, self.G, 1, D))
        self.q0 = blur(2 * self.draw(QUERY, L, self.H, n, D) + 2 * self.draw(QUERY_MEAN, L, self.H, 1, D))
        self.v = self.draw(VALUE, L, self.G, n, D)
        if self.seed % 2 == 0:
            self.v[:, :, [0, n - 2]] /= 1024
        self.v = blur(f32(self.v))
        self.wo = blur(f32(self.draw(OUTPUT, L, self.H, D, E)))
        self.k = f32(self.turn(self.k0, np.arange(n)))
        self.q = f32(self.turn(self.q0, np.arange(n)))
        self.filter = f32(self.draw(FILTER, L, self.G, 1, D)[:, :, 0])
        self.gate = f32(self.draw(GATE, L, self.G, 1, 1)[:, :, 0, 0] / 2 + 0.5)
        o = np.arange(1, POINTS + 1)
        lean = self.draw(KEEP, L, self.G, 1, 1)[:, :, 0]  # [L G 1]
        self.keep = np.floor(256 * (o / (POINTS + 1)) ** np.exp(1.5 * lean)) / 256

    def draw(self, kind, n_layer, n_head, n, width):
        l, h, i, d = np.ogrid[:n_layer, :n_head, :n, :width]
        u = np.uint64
        with np.errstate(over="ignore"):
            key = (u(self.seed * 32 + kind) * u(64) + l.astype(u)) * u(64) + h.astype(u)
            r = mix((key * u(4096) + i.astype(u)) * u(4096) + d.astype(u)) % u(2001)
        return (r.astype(float) - 1000) / 1000

    def angles(self, positions):
        freq = THETA ** (-2.0 * np.arange(D // 2) / D)
        return np.asarray(positions, dtype=float)[:, None] * freq

    def turn(self, x, positions):
        a = self.angles(positions)
        c, s, low, high = np.cos(a), np.sin(a), x[..., :D // 2], x[..., D // 2:]
        return np.concatenate([low * c - high * s, high * c + low * s], -1)

    def cos_sin(self, positions):
        a = torch.tensor(self.angles(positions))
        a = torch.cat([a, a], -1)[None]
        return a.cos(), a.sin()

    def rows(self, l):
        """Causal attention [H N N]."""
        k = np.repeat(self.k[l], self.R, 0)
        z = self.q[l] @ k.transpose(0, 2, 1) / math.sqrt(D)
        z[:, ~np.tril(np.ones((self.N, self.N), bool))] = -np.inf
        w = np.exp(z)
        return torch.tensor(w / w.sum(-1, keepdims=True))

    def module(self, l, heads=None):
        """A stand-in for layer l's self_attn, of some of its kv heads. A token's hidden state is its position."""
        heads = range(self.G) if heads is None else heads
        asked = [g * self.R + r for g in heads for r in range(self.R)]
        q0, k0 = torch.tensor(self.q0[l][asked]), torch.tensor(self.k0[l][list(heads)])
        config = types.SimpleNamespace(num_attention_heads=len(asked), num_key_value_heads=len(heads), head_dim=D,
                                       hidden_size=E, _attn_implementation="sdpa")

        def project(x):
            def of(hidden):
                at = hidden[0, :, 0].round().long()
                return x[:, at].transpose(0, 1).reshape(1, len(at), -1)
            return of

        weight = torch.tensor(self.wo[l][asked].reshape(len(asked) * D, E).T.copy())
        return types.SimpleNamespace(
            layer_idx=l, head_dim=D, config=config, num_key_value_groups=self.R, q_proj=project(q0),
            k_proj=project(k0), o_proj=types.SimpleNamespace(weight=weight), masked_key_indices=None,
            rotary_emb=lambda x, positions: self.cos_sin(positions[0].numpy()))

    def inputs(self, l, heads=None):
        """What compress() and score() take: module, hidden states, keys, values, attentions, kwargs."""
        heads = list(range(self.G) if heads is None else heads)
        hidden = torch.arange(self.N, dtype=torch.float64)[None, :, None].expand(1, self.N, len(heads)).contiguous()
        kwargs = {"position_embeddings": self.cos_sin(range(self.N)), "hidden_states": hidden}
        return [self.module(l, heads), hidden, torch.tensor(self.k[l][heads])[None], torch.tensor(self.v[l][heads])[None],
                None, kwargs]
