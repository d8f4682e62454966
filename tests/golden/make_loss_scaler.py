#!/usr/bin/env python3
"""What PyTorch's GradScaler does over a scripted series of updates, for loss_scaler_test.cc.

    python make_loss_scaler.py [--out DIR]

needs torch; the test needs only loss_scaler.json, which is kept.

Two parameters a and b of four elements with an SGD each (lr 0.1, momentum 0.9), and one scaler
(init 2^16, growth_interval 3). The loss of a part is sum(a * x) + sum(b * y), so that x and y are
the gradients; an update has one part or more. Gradients are unscaled, clipped to a norm where the
file says so, and applied. Large ones overflow at one scale and not at the next. After `saved_after` updates the scaler's
state is saved and loaded into a fresh one, as in a training that is resumed.

THE FILE: JSON; updates: parts [[x, y], ...], clip (a norm or null), and what came of it: scale,
finite_in_a_row, a, b.
"""
import argparse
import json
import os

import torch

INF = float("inf")
GROWTH_INTERVAL, SAVED_AFTER = 3, 9


def values(i, k):
    return [0.25 * ((3 * i + 5 * k + 7 * j) % 11 - 5) for j in range(4)]


def script():
    updates = [{"parts": [[values(i, 0), values(i, 1)]], "clip": None} for i in range(20)]
    updates[1]["parts"][0][0][2] = INF  # a overflows: b is updated all the same
    updates[2]["parts"][0][1][0] = float("nan")  # b
    updates[4]["parts"] = [[values(4, k), values(4, k + 1)] for k in range(3)]
    updates[5]["parts"] = [[values(5, 0), values(5, 1)], [values(5, 2), [INF, 0, 0, 0]]]
    updates[6]["clip"] = 0.5
    updates[11]["parts"][0][0][1] = 4e34  # times 2^14, but not 2^13
    updates[12]["parts"][0][0][1] = 4e34
    updates[14]["clip"] = 2.0
    updates[13]["parts"][0][0] = [INF] * 4
    updates[13]["parts"][0][1] = [-INF] * 4
    return updates


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)))
    out = p.parse_args().out
    a, b = (torch.tensor(v, requires_grad=True) for v in ([1.0, -2.0, 0.5, 3.0], [0.0, 1.0, -1.0, 2.0]))
    optimizers = [(t, torch.optim.SGD([t], lr=0.1, momentum=0.9)) for t in (a, b)]
    scaler = torch.amp.GradScaler("cpu", growth_interval=GROWTH_INTERVAL)
    updates = script()
    for i, update in enumerate(updates):
        for x, y in update["parts"]:
            scaler.scale((a * torch.tensor(x)).sum() + (b * torch.tensor(y)).sum()).backward()
        for tensor, optimizer in optimizers:
            scaler.unscale_(optimizer)
            if update["clip"] is not None:
                torch.nn.utils.clip_grad_norm_([tensor], update["clip"])
            scaler.step(optimizer)
        scaler.update()
        for _, optimizer in optimizers:
            optimizer.zero_grad()
        update |= {"scale": scaler.get_scale(), "finite_in_a_row": scaler.state_dict()["_growth_tracker"],
                   "a": a.tolist(), "b": b.tolist()}
        if i + 1 == SAVED_AFTER:
            state = scaler.state_dict()
            scaler = torch.amp.GradScaler("cpu", growth_interval=GROWTH_INTERVAL)
            scaler.load_state_dict(state)
    # JSON has no infinity: text stands for it.
    for update in updates:
        update["parts"] = [[[str(v) if v != v or abs(v) == INF else v for v in g] for g in part]
                           for part in update["parts"]]
    with open(f"{out}/loss_scaler.json", "w") as f:
        head = {"format": "brim-loss-scaler-1", "torch": torch.__version__.split("+")[0],
                "growth_interval": GROWTH_INTERVAL, "saved_after": SAVED_AFTER}
        f.write("{" + ",\n ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()))
        f.write(',\n "updates": [\n  ' + ",\n  ".join(json.dumps(u) for u in updates) + "\n]}\n")


if __name__ == "__main__":
    main()
