#!/usr/bin/env python3
"""The first inputs of safetensors_fuzz and npy_fuzz: small files, good and bad, one for each form
that the readers tell apart. Writes corpus/safetensors/ and corpus/npy/ beside this script.

    python make_corpus.py
"""
import json
import os
import struct

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


def main():
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
