"""Lanes with a probe: the rule of probes.h, in numpy. Run by make_probes.py only."""
import numpy as np

from toy import mix

D, CHUNK, LEAD, PREFIX = 8, 16, 3, 5
PROMPT_KEY, PROBE_KEY, PROBE_QUERY, PROMPT_QUERY, WO_NORM, H_NORM = range(6)


class Probes:
    """name is SEED/L/H/G/N/M."""

    def __init__(self, name):
        self.name = name
        self.seed, self.L, self.H, self.G, self.N, self.M = map(int, name.split("/"))
        self.R = self.H // self.G

    def x(self, kind, l, h, rows, channels=range(D)):
        i = np.asarray(rows, dtype=np.uint64)[:, None]
        d = np.asarray(channels, dtype=np.uint64)[None, :]
        base = np.uint64((self.seed * 64 + l) * 64 + h) * np.uint64(4096)
        r = mix((base + i) * np.uint64(4096) + np.uint64(512 * kind) + d)
        return ((r % np.uint64(33)).astype(float) - 16) / 8

    def norm(self, kind, l, h, n):
        return 2.125 + self.x(kind, l, h, range(n), [0])[:, 0]

    def z(self, l, h, query, key):
        return query @ key.T / np.sqrt(D)

    def prompt_rows(self, l, h, n):
        """Half attention of the last n prompt queries over the prompt."""
        key = self.x(PROMPT_KEY, l, h // self.R, range(self.N))
        z = self.z(l, h, self.x(PROMPT_QUERY, l, h, range(self.N - n, self.N)), key)
        z[np.arange(self.N)[None, :] > np.arange(self.N - n, self.N)[:, None]] = -np.inf
        return half(softmax(z))

    def probe_rows(self, l, h, m):
        """The prompt's part of the first m probe rows: softmax over prompt and own keys."""
        g = h // self.R
        key = np.concatenate([self.x(PROMPT_KEY, l, g, range(self.N)), self.x(PROBE_KEY, l, g, range(m))])
        z = self.z(l, h, self.x(PROBE_QUERY, l, h, range(m)), key)
        z[np.arange(self.N + m)[None, :] > self.N + np.arange(m)[:, None]] = -np.inf
        return half(softmax(z)[:, :self.N])


def softmax(z):
    w = np.exp(z - z.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True)


def half(a):
    return a.astype(np.float32).astype(np.float16).astype(float)
