"""Times single ops in PyTorch, called from Python, and prints microseconds as JSON.

add is y = y + x; autograd is that, a hundred times, with the gradient of the result by x.
The package bench/opbyop has the same loops.
"""
import argparse
import json
import time

import torch


def add(elements, calls=2000):
    x, y = torch.ones(elements), torch.zeros(elements)

    def block():
        nonlocal y
        for _ in range(calls):
            y = y + x

    return block, calls


def autograd(elements, calls=100):
    x, seed = torch.ones(elements, requires_grad=True), torch.ones(elements)

    def block():
        y = x + x
        for _ in range(calls - 1):
            y = y + x
        x.grad = None
        y.backward(seed)

    return block, calls


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("what", choices=["add", "autograd"])
    p.add_argument("--elements", type=int, default=16)
    p.add_argument("--seconds", type=float, default=1)
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    block, calls = {"add": add, "autograd": autograd}[args.what](args.elements)
    start, times = time.perf_counter(), []
    while not times or time.perf_counter() - start < 1.2 * args.seconds:
        before = time.perf_counter()
        block()
        after = time.perf_counter()
        if after - start > 0.2 * args.seconds:  # after a warm-up
            times.append(1e6 * (after - before) / calls)
    times.sort()
    print(json.dumps({"version": "PyTorch " + torch.__version__, "blocks": len(times), "median_us": times[len(times) // 2], "min_us": times[0]}))


if __name__ == "__main__":
    main()
