"""Trains one workload of `trainer bench` in PyTorch and prints its times as JSON.

The models, batch sizes, loss and optimizer are those of bench/workload.go: random
batches that stay in memory, float32, AdamW on every parameter. The switches are
ways of saying the same training; the program beside this file tries them.
"""
import argparse
import json
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp():
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    return model, lambda: (torch.randn(128, 784), torch.randint(10, (128,)))


def cnn():
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))
    return model, lambda: (torch.randn(64, 1, 28, 28), torch.randint(10, (64,)))


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)). Without a context, positions see all others."""

    def __init__(self, width, heads, context=None):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        # Added to the scores: one pass, where masked_fill would copy them.
        mask = torch.full((context, context), float("-inf")).triu(1) if context else torch.zeros(())
        self.register_buffer("mask", mask)
        self.gelu = "tanh" if context else "none"

    def attention(self, x):  # x [B,T,C]
        b, t, c = x.shape
        qkv = self.qkv(x).view(b, t, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).reshape(3, b * self.heads, t, c // self.heads)
        # Scaled and masked while the product is written.
        scores = torch.baddbmm(self.mask, q, k.transpose(1, 2), beta=1 if self.gelu == "tanh" else 0, alpha=(c // self.heads) ** -0.5)
        y = torch.bmm(scores.softmax(-1), v).view(b, self.heads, t, -1)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate=self.gelu))


class GPT(nn.Module):
    """GPT-2 with the embedding's weights as its head."""

    def __init__(self, layers, heads, width, context, positions, vocab):
        super().__init__()
        self.context = context
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(positions, width)
        self.blocks = nn.Sequential(*[Block(width, heads, context) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)
        for table in (self.wte, self.wpe):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids):  # [B,T] -> [B*T,vocab]
        x = self.wte(ids) + self.wpe.weight[: self.context]
        return F.linear(self.ln_f(self.blocks(x)), self.wte.weight).flatten(0, 1)


def gpt(layers, heads, width, context, batch, vocab, positions=None):
    model = GPT(layers, heads, width, context, positions or context, vocab)
    return model, lambda: (torch.randint(vocab, (batch, context)), torch.randint(vocab, (batch * context,)))


class Basic(nn.Module):
    """relu(x + f(x)), with two 3x3 convolutions."""

    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.shortcut = nn.Identity()
        if stride > 1 or before != width:
            self.shortcut = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x), inplace=True)


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    before = 64
    for width in (64, 128, 256, 512):
        layers += [Basic(before, width, 1 if width == 64 else 2), Basic(width, width, 1)]
        before = width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return model, lambda: (torch.randn(32, 3, 32, 32), torch.randint(10, (32,)))


class ViT(nn.Module):
    """Patches as tokens behind one of the class, which is what is classified."""

    def __init__(self, layers, heads, width, size, patch, classes):
        super().__init__()
        self.project = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 1 + (size // patch) ** 2, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = self.project(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x)[:, 0]))


def vit_tiny():
    return ViT(12, 3, 192, 224, 16, 1000), lambda: (torch.randn(8, 3, 224, 224), torch.randint(1000, (8,)))


WORKLOADS = {
    "mlp": mlp,
    "cnn": cnn,
    "gpt-nano": lambda: gpt(4, 4, 128, 64, 12, 65),
    "gpt-small": lambda: gpt(6, 6, 384, 256, 8, 65),
    "resnet-18": resnet18,
    "vit-tiny": vit_tiny,
    "gpt2": lambda: gpt(12, 12, 768, 64, 4, 50257, positions=1024),
}


def build(args):
    """One training step, as a function of its number."""
    model, batch = WORKLOADS[args.workload]()
    batches = [batch() for _ in range(2)]
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
        batches = [(x.to(memory_format=torch.channels_last), y) for x, y in batches]
    # foreach=True is slower here, as is keeping the gradients' memory.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01)
    net = torch.jit.trace(model, batches[0][0]) if args.jit else model

    def step(i):
        x, y = batches[i % 2]
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def measure(step, seconds):
    """Sorted times of steps in ms, after a warm-up of a fifth of that time."""
    start, n = time.perf_counter(), 0
    while n < 3 or time.perf_counter() - start < 0.2 * seconds:
        step(n)
        n += 1
    times, start = [], time.perf_counter()
    while not times or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        loss = step(n).item()
        times.append(1e3 * (time.perf_counter() - before))
        n += 1
    return sorted(times), loss


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("workload", choices=WORKLOADS)
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--jit", action="store_true", help="trace the model")
    p.add_argument("--channels-last", action="store_true", help="channels last in memory")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    times, loss = measure(build(args), args.seconds)
    print(json.dumps({
        "version": "PyTorch " + torch.__version__, "steps": len(times), "loss": loss,
        "step_ms": {"median": times[len(times) // 2], "min": times[0]},
    }))


if __name__ == "__main__":
    main()
