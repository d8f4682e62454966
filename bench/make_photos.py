#!/usr/bin/env python3
"""Draws photographs for measuring a loader: ROOT/<class>/<n>.jpg, of about 500x375 pixels and 100 KB.

    bench/make_photos.py ROOT [--images 512] [--seed 0]

Like those of ImageNet in what they cost to read: sides around 500x375, most lying, some
standing, quality 90, colours at half the resolution (4:2:0), and content between smooth and
rough: gradients, shapes with edges, and noise that falls with its frequency. The same
arguments give the same pixels. Needs numpy and pillow.
"""
import argparse
import os

import numpy as np
from PIL import Image, ImageDraw

CLASSES = 8


def sides(random):
    long_side = int(np.clip(random.normal(500, 40), 380, 640))
    short_side = int(long_side * random.uniform(0.66, 0.85))
    return (long_side, short_side) if random.random() < 0.75 else (short_side, long_side)


def gradient(random, width, height):
    """A bilinear blend of four colours: sky, ground, a wall."""
    y, x = np.mgrid[0:1:height * 1j, 0:1:width * 1j][..., None]
    a, b, c, d = random.uniform(30, 225, (4, 3))
    return (a * (1 - x) + b * x) * (1 - y) + (c * (1 - x) + d * x) * y


def shapes(random, width, height, pixels):
    picture = Image.fromarray(pixels.astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    for _ in range(random.integers(8, 24)):
        x, y = random.uniform(-0.1, 1, 2) * (width, height)
        w, h = random.uniform(0.03, 0.4, 2) * (width, height)
        colour = tuple(int(v) for v in random.integers(0, 256, 3))
        if random.random() < 0.5:
            draw.ellipse((x, y, x + w, y + h), fill=colour)
        else:
            draw.polygon([(x, y), (x + w, y + h / 3), (x + w / 2, y + h)], fill=colour)
    return np.asarray(picture, dtype=np.float64)


def noise(random, width, height):
    """Texture whose amplitude falls as a power of the frequency; the same in all colours, nearly."""
    fy, fx = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None]
    fall = np.maximum(np.hypot(fx, fy), 1 / width) ** -random.uniform(0.6, 1.1)
    planes = [np.fft.irfft2(np.fft.rfft2(random.standard_normal((height, width))) * fall, (height, width))
              for _ in range(2)]
    light, tint = (plane / plane.std() for plane in planes)
    return light[..., None] + 0.25 * tint[..., None] * random.uniform(-1, 1, 3)


def photograph(random):
    width, height = sides(random)
    pixels = shapes(random, width, height, gradient(random, width, height))
    pixels = pixels + random.uniform(18, 36) * noise(random, width, height)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("root")
    p.add_argument("--images", type=int, default=512)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    unfinished, total = a.root.rstrip("/") + ".unfinished", 0
    for i in range(a.images):
        folder = f"{unfinished}/class{i % CLASSES}"
        os.makedirs(folder, exist_ok=True)
        path = f"{folder}/{i:05}.jpg"
        photograph(np.random.default_rng((a.seed, i))).save(path, quality=90, subsampling="4:2:0")
        total += os.path.getsize(path)
    os.rename(unfinished, a.root)
    print(f"{a.root}: {a.images} images, {total / a.images / 1000:.0f} KB each")


if __name__ == "__main__":
    main()
