"""The attention tensor of tests/toy.h, in numpy. Run by make_policies.py and make_kvpress.py only."""
import numpy as np

M64 = np.uint64(0xFFFFFFFFFFFFFFFF)


def mix(x):
    with np.errstate(over="ignore"):
        x = np.asarray(x, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


class Toy:
    """w [L, H, T, T]; name is SEED/L/MODEL/H/G/N/M."""

    def __init__(self, name):
        self.name = name
        seed, self.L, self.model, self.H, self.G, self.N, self.M = map(int, name.split("/"))
        self.R, self.T = self.H // self.G, self.N + self.M
        self.layer_id = [l * (self.model - 1) // (self.L - 1) if self.L > 1 else 0 for l in range(self.L)]
        self.w = np.zeros((self.L, self.H, self.T, self.T))
        j = np.arange(self.T, dtype=np.uint64)
        for l in range(self.L):
            for h in range(self.H):
                base = np.uint64((seed * 64 + l) * 64 + h) * np.uint64(4096)
                r = lambda i: mix((base + np.uint64(i)) * np.uint64(4096) + j)
                boost = np.where(r(4095) % np.uint64(8) == 0, 8.0, 1.0)
                boost[0] = 16
                for i in range(self.T):
                    if i < self.N:
                        w = (r(i) % np.uint64(4)).astype(float) * boost
                        w[i:] = 0
                        full = 1
                        while full <= w.sum():
                            full *= 2
                        w[i] = full - w.sum()
                    else:
                        w = (1 + r(i) % np.uint64(1000003)).astype(float) * boost
                        w[i + 1:] = 0
                    self.w[l, h, i] = w

    def row(self, l, h, i, pos):
        """f32 attention of row i over the positions pos."""
        w = self.w[l, h, i, pos]
        total = w.sum()
        return (w / total if total > 0 else w).astype(np.float32).astype(float)

    def block(self, l, h, rows, pos):
        return np.stack([self.row(l, h, i, pos) for i in rows])
