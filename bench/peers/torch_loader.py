#!/usr/bin/env python3
"""Peer: a folder of JPEG files to normalised batches with torchvision, timed on request.

The protocol is that of peers/torch_step.py: prints `ready` when warm and answers `step N` with the
seconds of N batches. A batch is float32 in channels last: for training random resized crops of
224 pixels, half of them mirrored; with --evaluation the shorter side at 256 and the centre's 224.

--decoder tensor: torchvision.io.decode_jpeg and transforms.v2 on tensors of bytes, written to the
batch and normalised there at once. --decoder pil: Pillow, in its draft mode for evaluation, the usual
ImageFolder with transforms on its images. One thread; --workers processes beside it.
"""
import argparse
import os

import torch_step

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZE, SHORTER = 224, 256


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", required=True, help="folder of class folders")
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--evaluation", action="store_true")
    p.add_argument("--decoder", default="tensor", choices=["tensor", "pil"])
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--warmup", type=int, default=2)
    return p.parse_args()


def transform(a, v2):
    if a.evaluation:
        return v2.Compose([v2.Resize(SHORTER, antialias=True), v2.CenterCrop(SIZE)])
    return v2.Compose([v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip()])


def pil_image(path, evaluation):
    from PIL import Image

    image = Image.open(path)
    if evaluation:
        image.draft("RGB", (SHORTER, SHORTER))
    return image.convert("RGB")


def batches(a):
    """Normalised batches without end."""
    import torch
    from torchvision import datasets, io
    from torchvision.transforms import v2

    def read(path):
        return io.decode_jpeg(io.read_file(path), mode=io.ImageReadMode.RGB)

    def collate(samples):
        images = torch.empty(len(samples), 3, SIZE, SIZE, dtype=torch.uint8, memory_format=torch.channels_last)
        for row, (image, _) in zip(images, samples):
            row.copy_(image)
        return images, torch.tensor([label for _, label in samples])

    prepare = transform(a, v2)
    loader = read
    if a.decoder == "pil":
        loader = lambda path: pil_image(path, a.evaluation)
        prepare = v2.Compose([prepare, v2.PILToTensor()])
    torch.set_num_threads(1)
    data = torch.utils.data.DataLoader(
        datasets.ImageFolder(a.data, prepare, loader=loader), a.batch, shuffle=not a.evaluation, drop_last=True,
        num_workers=a.workers, collate_fn=collate, persistent_workers=a.workers > 0)
    scale = 1 / (255 * torch.tensor(STD).view(1, 3, 1, 1))
    shift = -torch.tensor(MEAN).view(1, 3, 1, 1) / torch.tensor(STD).view(1, 3, 1, 1)
    while True:
        for images, labels in data:
            yield images.float().mul_(scale).add_(shift), labels


def main():
    a = arguments()
    # Before torch is imported, which starts OpenMP.
    os.environ["OMP_NUM_THREADS"] = "1"
    source = batches(a)
    torch_step.timed(lambda: next(source), a.warmup)
    torch_step.serve(lambda: next(source))


if __name__ == "__main__":
    main()
