#!/usr/bin/env python3
"""What Pillow reads of small pictures that programs have read differently: turned by EXIF, and of
CMYK with and without Adobe's marker. For pictures_test.cc.

    python make_pictures.py [--out DIR]

needs pillow; the test needs only pictures.json, which is kept.

THE FILE: JSON; pictures: name, file (its bytes in hex), and of what Pillow makes of it (turned by
ImageOps.exif_transpose, then in RGB): width, height, rgb (hex, by rows).
"""
import argparse
import io
import json
import os
import struct

import PIL
from PIL import Image, ImageOps

WIDTH, HEIGHT = 7, 4


def exif(orientation, order="<"):
    """A block with two entries, of which the second is the orientation."""
    entries = [(0x0100, 3, 1, WIDTH), (0x0112, 3, 1, orientation)]
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8)
    body = b"".join(struct.pack(order + "HHIHH", *entry, 0) for entry in entries)
    return head + struct.pack(order + "H", len(entries)) + body + bytes(4)


def drawn():
    image = Image.new("RGB", (WIDTH, HEIGHT))
    image.putdata([(35 * x, 80 * y, 255 - 30 * x - 10 * y) for y in range(HEIGHT) for x in range(WIDTH)])
    return image


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def jpeg(block):
    return saved(drawn(), "JPEG", quality=95, subsampling=0, exif=b"Exif\0\0" + block)


def cmyk():
    image = Image.new("CMYK", (WIDTH, HEIGHT))
    image.putdata([(30 * x, 60 * y, 200 - 20 * x, 20 * (x + y)) for y in range(HEIGHT) for x in range(WIDTH)])
    return saved(image, "JPEG", quality=95, subsampling=0)


def without_segment(data, marker):
    """A JPEG without the first segment of this kind."""
    at = 2
    while data[at + 1] != marker:
        at += 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
    return data[:at] + data[at + 2 + struct.unpack(">H", data[at + 2:at + 4])[0]:]


def described(name, data):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    return {"name": name, "file": data.hex(), "width": image.width, "height": image.height,
            "rgb": image.tobytes().hex()}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)))
    out = p.parse_args().out
    files = {f"JPEG, orientation {i}": jpeg(exif(i)) for i in range(1, 9)}
    files |= {f"PNG, orientation {i}": saved(drawn(), "PNG", exif=exif(i, ">")) for i in range(1, 9)}
    files["JPEG, orientation 6, high byte first"] = jpeg(exif(6, ">"))
    files["JPEG, orientation 0"] = jpeg(exif(0))
    files["JPEG, orientation 9"] = jpeg(exif(9))
    files["JPEG, EXIF cut short"] = jpeg(exif(6)[:20])
    files["CMYK"] = cmyk()
    files["CMYK without Adobe's marker"] = without_segment(cmyk(), 0xEE)
    with open(f"{out}/pictures.json", "w") as f:
        f.write(f'{{"format": "brim-pictures-1", "pillow": "{PIL.__version__}", "pictures": [\n ')
        f.write(",\n ".join(json.dumps(described(*item)) for item in files.items()) + "\n]}\n")


if __name__ == "__main__":
    main()
