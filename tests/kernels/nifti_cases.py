"""Writes NIfTI files of many kinds and what nibabel reads from them, for test_readers.cpp.

usage: nifti_cases.py FOLDER COUNT SEED

FOLDER/cases.txt has a line a file: name, "refused" or the shape, the affine's 16 numbers; FOLDER/N.bin
the voxels as nibabel scales them, float64 in the file's order. Headers are made byte by byte, so that
they may say what no writer would write. Exit code 77: there is no nibabel.
"""
import gzip
import logging
import os
import struct
import sys
import warnings

try:
    import nibabel
    import numpy as np
except ImportError:
    sys.exit(77)

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
TYPES = {2: "u1", 4: "i2", 8: "i4", 16: "f4", 64: "f8", 256: "i1", 512: "u2", 768: "u4", 1024: "i8",
         1280: "u8"}
ODD = {1: 1, 32: 64, 128: 24, 1536: 128, 1792: 128, 2304: 32, 5: 8}


def pick(rng, *choices):
    return choices[rng.integers(len(choices))]


def header(rng, two, order, dim, code, bits, pair):
    size = 540 if two else 348
    b = bytearray(size)
    real = "d" if two else "f"

    def put(at, form, *values):
        struct.pack_into(order + form, b, at, *values)

    zooms = [float(pick(rng, 1, 0.5, 2.5, 3, 0, -1.5)) for _ in range(7)]
    qfac = float(pick(rng, 1, -1, 0, 2))
    q = rng.normal(size=4)
    q = q / np.linalg.norm(q) * pick(rng, 1, 1, 1, 0.7, 1.2)
    rows = [float(np.float32(v)) for v in rng.normal(size=12) * 10]
    slope, inter = pick(rng, (1, 0), (0, 0), (2.5, -3), (float("nan"), 0), (-1, 7), (0.1, 0.2),
                        (float("inf"), 1), (2, float("nan")))
    sform, qform = pick(rng, 0, 0, 1, 2, 4, 5, 17), pick(rng, 0, 1, 2, 3, -1)
    offset = 0 if pair else (544 if two else 352) + pick(rng, 0, 0, 16, 1)
    put(0, "i", size)
    if two:
        b[4:12] = b"ni2\0\r\n\032\n" if pair else b"n+2\0\r\n\032\n"
        at = {"type": 12, "dim": 16, "zooms": 104, "offset": 168, "scale": 176, "codes": 344, "q": 352, "s": 400}
        extent, start, form = "q", "q", "i"
    else:
        b[344:348] = b"ni1\0" if pair else b"n+1\0"
        at = {"type": 70, "dim": 40, "zooms": 76, "offset": 108, "scale": 112, "codes": 252, "q": 256, "s": 280}
        extent, start, form = "h", "f", "h"
    put(at["type"], "hh", code, bits)
    put(at["dim"], "8" + extent, len(dim), *(list(dim) + [1] * (7 - len(dim))))
    put(at["zooms"], "8" + real, qfac, *zooms)
    put(at["offset"], start, offset)
    put(at["scale"], "2" + real, slope, inter)
    put(at["codes"], form + form, qform, sform)
    put(at["q"], "6" + real, *[float(v) for v in q[1:]], *rows[:3])
    put(at["s"], "12" + real, *rows)
    return bytes(b), offset


def case(rng, folder, n):
    two, pair = bool(rng.integers(2)), rng.random() < 0.25
    order = pick(rng, "<", ">")
    dim = [int(v) for v in rng.integers(1, 5, size=rng.integers(1, 6))]
    odd = rng.random() < 0.1
    code = pick(rng, *(ODD if odd else TYPES))
    bits = ODD[code] if odd else 8 * np.dtype(TYPES[code]).itemsize
    head, offset = header(rng, two, order, dim, code, bits, pair)
    count = int(np.prod(dim))
    head = bytearray(head)
    if n % 5 == 0:
        struct.pack_into(order + "h", head, 14 if two else 72, 0)  # bitpix, not set
    head = bytes(head)
    if odd:
        voxels = bytes(count * bits // 8)
    else:
        values = rng.integers(0, 100, size=count)
        voxels = values.astype(order + TYPES[code]).tobytes()
    gz = rng.random() < 0.3
    name = f"{n}." + ("img" if pair else "nii")
    files = {name: bytes(offset) + voxels if pair else head.ljust(offset, b"\0") + voxels}
    if pair:
        files[f"{n}.hdr"] = head
    for file, content in files.items():
        with open(f"{folder}/{file}" + (".gz" if gz else ""), "wb") as out:
            more = 0 if file.endswith("hdr") else n % 4  # zeros, as tapes and blocks are filled up
            out.write(gzip.compress(content, 1) + bytes(more) if gz else content)
    return name + (".gz" if gz else "")


def affine_of(image):
    """nibabel's, but the qform where pixdim contradicts the sform (MONAI's correct_nifti_header_if_necessary)."""
    header, axes = image.header, int(image.header["dim"][0])
    if axes <= 3 and header["sform_code"] and header["qform_code"]:
        sizes = np.sqrt(np.square(image.affine[:axes, :axes]).sum(0))
        if not np.allclose(header.get_zooms()[:axes], sizes):
            return image.get_qform()
    return image.affine


def read(path):
    image = nibabel.load(path)
    data = np.asanyarray(image.dataobj)
    if data.dtype.fields or np.iscomplexobj(data) or data.dtype.itemsize > 8:
        raise ValueError("no scalar that a tensor holds")
    return affine_of(image), data.astype(np.float64)


def main(folder, count, seed):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(seed)
    with open(f"{folder}/cases.txt", "w") as cases:
        for n in range(count):
            name = case(rng, folder, n)
            try:
                affine, data = read(f"{folder}/{name}")
            except Exception:
                cases.write(f"{name} refused\n")
                continue
            data.ravel(order="F").tofile(f"{folder}/{n}.bin")
            numbers = " ".join(repr(float(v)) for v in affine.ravel())
            cases.write(f"{name} {'x'.join(map(str, data.shape))} {numbers}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
