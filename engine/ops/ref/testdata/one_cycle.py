# Writes one_cycle.csv: learning rates by the formula of PyTorch's torch.optim.lr_scheduler.OneCycleLR with
# anneal_strategy="cos" and three_phase=False, in float64. With torch
# installed, --torch writes the table by calling OneCycleLR itself.
import csv
import math
import sys

CASES = [  # max_lr, total_steps, pct_start, div_factor, final_div_factor
    (0.1, 50, 0.3, 25.0, 1e4),  # PyTorch's defaults
    (0.3, 37, 0.45, 10.0, 100.0),  # the top lies between two steps
    (0.01, 20, 0.04, 4.0, 1.5),  # the top is before step 0, and it only falls
    (1.0, 16, 1.0, 25.0, 1e4),  # it only rises
]


def rate(max_lr, total, pct_start, div, final_div, step):
    initial = max_lr / div
    top, end = pct_start * total - 1, total - 1
    a, b, done = (initial, max_lr, step / top) if step <= top else (max_lr, initial / final_div, (step - top) / (end - top))
    return b + (a - b) / 2.0 * (math.cos(math.pi * done) + 1)


def by_torch(max_lr, total, pct_start, div, final_div):
    import torch

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=max_lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr, total, pct_start=pct_start, div_factor=div, final_div_factor=final_div, cycle_momentum=False)
    for _ in range(total):
        yield schedule.get_last_lr()[0]
        optimizer.step()
        if schedule.last_epoch < total - 1:
            schedule.step()


out = csv.writer(open("one_cycle.csv", "w"), lineterminator="\n")
out.writerow(["max_lr", "total_steps", "pct_start", "div_factor", "final_div_factor", "step", "rate"])
for case in CASES:
    rates = by_torch(*case) if "--torch" in sys.argv else (rate(*case, step) for step in range(case[1]))
    for step, r in enumerate(rates):
        out.writerow([*case, step, repr(r)])
