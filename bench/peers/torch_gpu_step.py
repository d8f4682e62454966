#!/usr/bin/env python3
"""Peer of `train --device cuda --data synthetic`: the same training step in PyTorch, as fast as it goes eagerly.

Channels last, autocast in float16 with loss scaling, cudnn.benchmark, and in float32 TF32 (brim's --tf32) unless
--no-tf32. Its images lie on the GPU from the start; brim copies its batch there in each step.
Prints one JSON object: the median over the steps after the warm-up, each waited for, and the peaks of these steps.
What cudnn.benchmark tried in the warm-up is not in them, but in those `with_warmup`.
--probe only says whether there is a torch that sees a GPU, and exits with 1 where there is none.
"""
import argparse
import json
import statistics
import sys
import time


def probe():
    try:
        import torch
        import torchvision
    except ImportError as error:
        sys.exit(str(error))
    if not torch.cuda.is_available():
        sys.exit(f"torch {torch.__version__} sees no GPU")
    print(torch.__version__, torchvision.__version__)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--probe", action="store_true")
    p.add_argument("--model", default="resnet50")
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--precision", default="f16", choices=["f32", "f16"])
    p.add_argument("--no-tf32", action="store_true")
    p.add_argument("--warmup", type=int, default=10)
    p.add_argument("--steps", type=int, default=20)
    return p.parse_args()


def main():
    a = arguments()
    if a.probe:
        return probe()
    import torch
    import torchvision

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = not a.no_tf32
    half = a.precision == "f16"
    model = getattr(torchvision.models, a.model)(num_classes=1000).cuda()
    model = model.to(memory_format=torch.channels_last).train()
    images = torch.randn(a.batch, 3, a.size, a.size, device="cuda").contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (a.batch,), device="cuda")
    sgd = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
    scaler = torch.amp.GradScaler("cuda", enabled=half)

    def step():
        sgd.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.float16, enabled=half):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(sgd)
        scaler.update()
        return loss

    seconds = []
    for i in range(a.warmup + a.steps):
        if i == a.warmup:
            tried = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = step()
        torch.cuda.synchronize()
        if i >= a.warmup:
            seconds.append(time.perf_counter() - begin)
    median = statistics.median(seconds)
    reserved, live = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    print(json.dumps({"images_per_second": a.batch / median, "step_seconds": median, "least_seconds": min(seconds),
                      "greatest_seconds": max(seconds), "peak_bytes": reserved, "peak_live_bytes": live,
                      "peak_bytes_with_warmup": max(tried[0], reserved),
                      "peak_live_bytes_with_warmup": max(tried[1], live), "loss": loss.item(),
                      "torch": torch.__version__, "torchvision": torchvision.__version__,
                      "cudnn": torch.backends.cudnn.version()}))


if __name__ == "__main__":
    main()
