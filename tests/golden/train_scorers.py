#!/usr/bin/env python3
"""Scores and gradients of the scorers of kvt train, by torch's automatic differentiation in double.

    python3 tests/golden/train_scorers.py > tests/golden/train_scorers.txt

Written from the formulae of KVpop (arXiv 2607.05061, section 4 and appendix E) and Fast KVzip (arXiv
2601.17668), by sums over all tokens instead of a recurrence. Numbers come of the rule of value(), which
test_train_scorers.c has, too. A line: case, what, numbers...
"""
import math

import torch

torch.set_default_dtype(torch.float64)


def value(n, salt, size):
    return torch.tensor([size * math.sin(1.3 + 0.9 * i + 2.1 * salt + 0.37 * (i * i % 101)) for i in range(n)])


def show(case, what, numbers):
    print(case, what, *(f"{a:.15e}" for a in numbers.detach().flatten().tolist()))


def take(param, at, *shape):
    n = math.prod(shape)
    return param[at:at + n].reshape(shape), at + n


def mlp(param, x, width, n_out, act):
    w, at = take(param, 0, width, x.shape[1])
    b, at = take(param, at, width)
    v, at = take(param, at, n_out, width)
    c, at = take(param, at, n_out)
    return act(x @ w.T + b) @ v.T + c


def phi(u):
    return torch.cat([torch.softmax(u, -1), torch.softmax(-u, -1)], -1)


def mlstm(param, x, inner, delay, read):
    width, n = x.shape[1], x.shape[0]
    w, at = take(param, 0, 3 * inner + 2, width)
    b, at = take(param, at, 3 * inner + 2)
    gain, at = take(param, at, inner)
    out, at = take(param, at, inner)
    last, at = take(param, at, 1)
    u = x @ w.T + b
    q, k, v = phi(u[:, :inner]), phi(u[:, inner:2 * inner]), u[:, 2 * inner:3 * inner]
    log_f = torch.nn.functional.logsigmoid(u[:, 3 * inner + 1]).cumsum(0)
    scores = []
    for t in read:
        s = t + delay
        weight = torch.exp(u[:s + 1, 3 * inner] + log_f[s] - log_f[:s + 1]) * (k[:s + 1] @ q[t])
        y = (weight @ v[:s + 1]) / weight.sum()
        y = y / torch.sqrt((y * y).mean() + 1e-6) * gain
        scores.append(out @ torch.nn.functional.silu(y) + last[0])
    return torch.stack(scores)


def gate(param, x, heads, lanes, inner, bases):
    width, group = x.shape[1], heads // lanes
    wq, at = take(param, 0, heads, inner, width)
    wk, at = take(param, at, lanes, inner, width)
    b, at = take(param, at, heads, inner)
    gq, at = take(param, at, inner)
    gk, at = take(param, at, inner)
    base, at = take(param, at, lanes, bases, inner)
    logit, at = take(param, at, heads)

    def norm(u, g):
        return u / torch.sqrt((u * u).mean(-1, keepdim=True) + 1e-6) * g

    q = norm(torch.einsum("hoe,ne->nho", wq, x) + b, gq).reshape(-1, lanes, group, inner)
    k = norm(torch.einsum("goe,ne->ngo", wk, x), gk)
    a = torch.einsum("ngro,ngo->ngr", q, k) / math.sqrt(inner) + logit.reshape(lanes, group)
    e = torch.einsum("ngro,gko->ngrk", q, base) / math.sqrt(inner)
    return (1 / (1 + torch.exp(e - a[..., None]).sum(-1))).mean(-1)


def case(name, n_param, size, score):
    param = value(n_param, 1, size).requires_grad_()
    s = score(param)
    weight = value(s.numel(), 3, 1.0)
    (s.flatten() * weight).sum().backward()
    show(name, "score", s)
    show(name, "grad", param.grad)


x = value(14 * 6, 2, 1.2).reshape(14, 6)
case("silu", 5 * 6 + 5 + 2 * 5 + 2, 0.8, lambda p: mlp(p, x, 5, 2, torch.nn.functional.silu))
case("gelu", 5 * 6 + 5 + 2 * 5 + 2, 0.8, lambda p: mlp(p, x, 5, 2, torch.nn.functional.gelu))
read = [0, 1, 4, 5, 9]
count = 14 * 6 + 14 + 4 + 4 + 1
case("delayed", count, 0.9, lambda p: mlstm(p, x, 4, 3, read))
case("static", count, 0.9, lambda p: mlstm(p, x, 4, 0, read))
case("gate", (4 + 2) * 3 * 6 + 4 * 3 + 2 * 3 + 2 * 5 * 3 + 4, 0.9, lambda p: gate(p, x, 4, 2, 3, 5))

# The loss at the boundary: pairs (new, bound, keeps, age, omega), tau = 1.3, a learned decay.
pairs = [(0, 3, 1, 3, 0.5), (2, 1, -1, -7, 1.5), (4, 0, -1, -40, 1.0), (1, 4, 1, -2, 0.25)]
s = value(5, 4, 2.0).requires_grad_()
a = torch.tensor(0.4, requires_grad=True)
gamma = math.log(0.999) + torch.sigmoid(a) * (math.log(0.999999) - math.log(0.999))
loss = sum(omega * torch.nn.functional.softplus(-y * (s[i] - s[j] + age * gamma) / 1.3)
           for i, j, y, age, omega in pairs)
loss.backward()
show("boundary", "score", loss)
show("boundary", "grad", torch.cat([s.grad, a.grad.reshape(1)]))
