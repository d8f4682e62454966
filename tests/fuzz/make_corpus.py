#!/usr/bin/env python3
"""The first inputs of the fuzz targets but for pictures: small files, good and bad, one for each
form that the readers tell apart, and PNGs whose texts and profile inflate to much more. Writes
below corpus/ beside this script; what else lies there was found by the fuzzer.

    python make_corpus.py
"""
import json
import os
import struct
import zlib

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def write(name, data):
    path = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def safetensors(name, header, size):
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    write(f"safetensors/{name}", struct.pack("<Q", len(text)) + text + bytes(i % 2 for i in range(size)))


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def npy(name, descr, shape, size, fortran=False, version=1):
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    head = b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text))
    write(f"npy/{name}", head + text + bytes(i % 2 for i in range(size)))


def idx_file(sizes, data, dtype=8):
    return bytes([0, 0, dtype, len(sizes)]) + b"".join(struct.pack(">I", n) for n in sizes) + data


def idx(name, labels, images, choices=0):
    write(f"idx/{name}", bytes([choices]) + struct.pack("<H", len(labels)) + labels + images)


def cifar(name, names, images, choices=0):
    write(f"cifar/{name}", bytes([choices]) + struct.pack("<H", len(names)) + names + images)


def trace(name, **changes):
    whole = {"format": "brim trace", "version": 1, "end": 2, "strings": ["", "relu"],
             "origins": [[1, 0, 0, 12, "forward"]],
             "buffers": [[64, "input", 0, 0, 0, 2, 1], [128, "scratch", 0, 0, 1, 2, 2]],
             "ops": [[0, 0, 2, [0], [1], 2.5, 192, 0.0, 0.5]],
             "sections": [["update", 0, 0, 2, 3]]}
    write(f"trace/{name}", json.dumps({**whole, **changes}).encode())


def plan(name, **changes):
    step = {"section": ["first_micro_step", 4], "nested": [["other", 0]], "preamble": 1, "peak_live": 320,
            "requests": [[64, 64, 2, 1, 1], [128, 128, 2, 1, 0], [64, 64, 3, 0, 1]]}
    setup = {"section": ["other", 0], "nested": [], "preamble": 0, "peak_live": 64,
             "requests": [[64, -1, 0, 0, 1]]}
    whole = {"format": "brim plan", "version": 1, "identity": "fuzz", "arena_bytes": 256,
             "lower_bound": 256, "at_peak": [64, 0, 0, 192, 0, 0, 0, 0], "kept_bytes": 64,
             "kept": [[64, 1, 0]], "sites": [["", "", "other"], ["conv2d", "layer1.0", "forward"]],
             "programs": [{"step": False, "top": 64, "sections": [setup]},
                          {"step": True, "top": 256, "sections": [step]}]}
    write(f"plan/{name}", json.dumps({**whole, **changes}).encode())


def checkpoint(name, more="", **changes):
    whole = {"checkpoint.version": 1, "checkpoint.checksum": 2**64 - 1, "progress.updates": 12,
             "progress.optimizer_steps": 12, "progress.ema_updates": 12, "progress.epoch": 1,
             "progress.batch": 4, "progress.loss_sum": "0.1", "progress.images": 400,
             "progress.seconds": "1e+300", "progress.best": "-5e-324",
             "progress.epochs_since_best": 0, "identity.model": "resnet18", "notes.plan": "{}"}
    entries = {**whole, **{f"progress.{key}": value for key, value in changes.items()}}
    lines = [f"{key}={value}\n" for key, value in entries.items() if value is not None]
    write(f"checkpoint/{name}", ("".join(lines) + more).encode())


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(name, before, after=b""):
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0))
    pixels = png_chunk(b"IDAT", zlib.compress(bytes(14)))
    write(f"png/{name}.png",
          b"\x89PNG\r\n\x1a\n" + header + before + pixels + after + png_chunk(b"IEND", b""))


def make_idx():
    labels, images = idx_file([3], b"\1\0\2"), idx_file([3, 2, 4], bytes(range(24)))
    idx("good", labels, images)
    idx("ten_classes", labels, images, choices=2)
    idx("shrinks", labels, images, choices=1)
    idx("swapped", images, labels)
    idx("gzip", b"\x1f\x8b\x08\0" + labels, images)
    idx("counts", idx_file([2], b"\1\0"), images)
    idx("floats", labels, idx_file([3, 2, 4], bytes(96), dtype=13))
    idx("huge", idx_file([2**32 - 1], b""), idx_file([2**32 - 1] * 3, b""))
    idx("label", idx_file([3], b"\1\0\12"), images, choices=2)


def make_cifar():
    names = b"\n".join(bytes([c]) for c in b"abcdefghij") + b"\n\n"
    names100 = b"".join(b"%d\n" % i for i in range(100))
    record = b"\7" + bytes(range(256)) * 12
    cifar("record", names, record)
    cifar("cut", names, record[:-1])
    cifar("labels", names, b"\0\11\3", choices=2)
    cifar("label", names, b"\0\12\3", choices=2)
    cifar("hundred", names100, bytes([19, 99, 0, 0]), choices=3)
    cifar("coarse", names100, bytes([20, 99]), choices=3)
    cifar("train", names, b"\1\2", choices=6)
    cifar("names", names[:-3], b"\0", choices=2)
    cifar("more_names", names + b"k\r\nl", b"\0", choices=2)
    cifar("hundred_train", names100, b"\1\2\3\4", choices=7)


def make_png():
    text = b"k\0\0" + zlib.compress(bytes(900_000), 9)
    png("text_bombs", 3 * png_chunk(b"zTXt", text) + png_chunk(b"iTXt", b"k\0\1\0\0" + text[2:]),
        png_chunk(b"zTXt", text))
    profile = struct.pack(">I", 900_000) + bytes(900_000 - 4)
    png("profile_bomb", png_chunk(b"iCCP", b"k\0\0" + zlib.compress(profile, 9)))


def exif(orientation=6, order="<", kind=3, count=1, tag=0x0112, directory=8, entries=1):
    return ((b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, directory)
            + struct.pack(order + "HHHIHH", entries, tag, kind, count, orientation, 0) + bytes(4))


def app1(block):
    return b"\xff\xe1" + struct.pack(">H", 8 + len(block)) + b"Exif\0\0" + block


def make_exif():
    blocks = {"little": exif(), "big": exif(order=">"), "none": exif(tag=0x0100), "nine": exif(9),
              "long": exif(kind=4), "many": exif(count=2**32 - 1), "far": exif(directory=2**32 - 1),
              "back": exif(directory=0), "entries": exif(tag=0x0100, entries=2**16 - 1)}
    signature = b"\x89PNG\r\n\x1a\n"
    for name, block in blocks.items():
        write(f"exif/block_{name}", block)
        write(f"exif/jpeg_{name}", b"\xff\xd8" + app1(b"")[:8] + app1(block) + b"\xff\xda")
        write(f"exif/png_{name}", signature + png_chunk(b"IHDR", bytes(13)) + png_chunk(b"eXIf", block))
    write("exif/jpeg_cut", b"\xff\xd8\xff\xe1\xff\xffExif\0\0" + exif())
    write("exif/png_cut", signature + struct.pack(">I", 2**32 - 1) + b"eXIf" + exif())
    png("turned", png_chunk(b"eXIf", exif()))
    with open(os.path.join(HERE, "../../golden/pictures.json")) as f:
        for i, picture in enumerate(json.load(f)["pictures"][1:8]):
            write(f"jpeg/orientation_{i + 2}", bytes.fromhex(picture["file"]))


def make_packing_csv():
    head = "id,lower,upper,size\n"
    texts = {
        "good": head + "b1,0,3,4\nb2,3,9,4\n",
        "mixed": "size,note, id,upper,lower\r\n\r\n5,?,x,4,-3\r\n6,,y,1,0",
        "no_rows": head,
        "no_size": "id,lower,upper\na,0,1\n",
        "twice": head + "a,0,1,4\na,0,1,4\n",
        "fields": head + "a,0,1,4,5\n",
        "backwards": head + "a,2,1,4\n",
        "negative": head + "a,0,1,-4\n",
        "overflow": head + "a,0,1,9223372036854775808\n",
        "sum": head + "a,0,1,9223372036854775807\nb,1,2,1\n",
        "quotes": head + "\"a\",0,1,4\n",
        "control": head + "a\x1b,0,1,4\n",
        "ids": head + "".join(f"{c},0,1,0\n" for c in "abcdefghijklmnopqrstuvwxyz"),
    }
    for name, text in texts.items():
        write(f"packing_csv/{name}", text.encode())


def make_trace():
    trace("small")
    trace("empty", end=0, buffers=[], ops=[], sections=[])
    trace("past_the_end", sections=[["update", 0, 0, 3, 3]])
    trace("too_many_bytes", buffers=[[2**63 - 1, "input", 0, 0, 0, 2, 1], [1, "other", 0, 0, 0, 2, 2]])
    trace("long_text", strings=["", "x" * 1024])


def make_plan():
    plan("small")
    plan("another_question", identity="")
    plan("too_high", arena_bytes=512)
    plan("many_kept", kept=[[64, 2**40, 0]], kept_bytes=2**46)
    plan("no_site", sites=[])
    write("plan/huge_number", b'{"format":99e999')
    plan("deep", programs=json.loads("[" * 200 + "]" * 200))


def make_checkpoint():
    checkpoint("whole")
    checkpoint("no_averages", ema_updates=None, best=None)
    checkpoint("no_batch", batch=None)
    checkpoint("negative", images=-1)
    checkpoint("huge", loss_sum="1e999")
    checkpoint("nan", best="nan")
    checkpoint("unknown", more="progress.x=1\n")
    checkpoint("names", more="identity.=\nnotes.\nidentity.a=b=c")


def main():
    make_packing_csv()
    make_idx()
    make_cifar()
    make_png()
    make_exif()
    make_trace()
    make_plan()
    make_checkpoint()
    sizes = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I8": 1, "U8": 1, "BOOL": 1}
    every, at = {"__metadata__": {"format": "pt", "brim.classes": "[\"cat\",\"\\u00e9\"]"}}, 0
    for dtype, size in sizes.items():
        every[f"layer.{dtype}"] = entry(dtype, [2, 1], at, at + 2 * size)
        at += 2 * size
    safetensors("every_dtype", every, at)
    safetensors("empty", "{}", 0)
    safetensors("scalar_and_none", {"a": entry("U8", [], 0, 1), "b": entry("F32", [0, 3], 1, 1)}, 1)
    safetensors("eight_axes", {"a": entry("I8", [1] * 8, 0, 1)}, 1)
    safetensors("padded", json.dumps({"a": entry("U8", [3], 0, 3)}) + "     ", 3)
    safetensors("overlap", {"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 1, 3)}, 3)
    safetensors("beyond", {"a": entry("U8", [9], 0, 9)}, 3)
    safetensors("hole", {"a": entry("U8", [1], 1, 2)}, 2)
    safetensors("overflow", {"a": entry("U8", [2**32, 2**32], 0, 0)}, 0)
    safetensors("negative", {"a": entry("U8", [-1], 0, 1)}, 1)
    safetensors("twice", '{"a":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}}', 1)
    safetensors("escapes", r'{"\u0061\ud83d\ude00":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1)
    safetensors("deep", "{" + '"a":[' * 30, 0)
    write("safetensors/long_header", struct.pack("<Q", 2**63) + b"{}")

    for descr, size in {"<f4": 4, "<f8": 8, "<f2": 2, "|i1": 1, "|u1": 1, "<i4": 4, "<i8": 8, "|b1": 1}.items():
        npy(f"dtype_{descr[1:]}", f"'{descr}'", "(2, 1)", 2 * size)
    npy("version2", "'<f4'", "(3,)", 12, version=2)
    npy("version3", "'<f4'", "()", 4, version=3)
    npy("fortran", "'<i4'", "(2, 3)", 24, fortran=True)
    npy("none", "'<f4'", "(2, 0, 5)", 0)
    npy("object", "'|O'", "(1,)", 8)
    npy("big_endian", "'>f4'", "(1,)", 4)
    npy("structure", "[('a', '<f4')]", "(1,)", 4)
    npy("overflow", "'<f8'", "(4294967296, 4294967296)", 0)
    npy("short", "'<f8'", "(2,)", 15)
    write("npy/quotes", b'\x93NUMPY\x01\x00' + struct.pack("<H", 58)
          + b'{"shape": (1,), "fortran_order": False, "descr": "|u1",  }\x01')


if __name__ == "__main__":
    main()
