"""Writes tests/golden/volumes: NRRD and MetaImage files of many kinds, and what SimpleITK reads.

usage: python make_volumes.py      (with SimpleITK 2.5.7)

volumes.json has for each file the RAS affine and the voxels as [C, X, Y, Z] that ITK sees.
"""
import gzip
import json
import os
import zlib

import numpy as np
import SimpleITK as sitk

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "volumes")
X, Y, Z = 3, 4, 2
files = {}


def voxels(dtype, channels=1, order="<"):
    n = X * Y * Z * channels
    return (np.arange(n) * 3 % 251).astype(order + dtype).tobytes()


def nrrd(name, head, data, detached=None, gz=False):
    text = "NRRD0004\n# golden\n" + head + (f"data file: {detached}\n" if detached else "")
    data = gzip.compress(data, mtime=0) if gz else data
    files[name] = text.encode() + (b"" if detached else b"\n" + data)
    if detached:
        files[detached] = data


def mha(name, head, data, detached=None, packed=False):
    data = zlib.compress(data) if packed else data
    size = f"CompressedDataSize = {len(data)}\n" if packed else ""
    text = (f"ObjectType = Image\nBinaryData = True\nCompressedData = {packed}\n{size}" + head +
            f"ElementDataFile = {detached or 'LOCAL'}\n")
    files[name] = text.encode() + (b"" if detached else data)
    if data and detached:
        files[detached] = data


base = f"dimension: 3\nsizes: {X} {Y} {Z}\nencoding: raw\n"
turned = "space directions: (0,2,0) (-1.5,0,0) (0,0.1,3)\nspace origin: (10,-20,30.5)\n"
for i, (kind, code, dtype) in enumerate([
        ("signed char", "i1", 1), ("uchar", "u1", 1), ("short", "i2", 2), ("uint16", "u2", 2),
        ("int", "i4", 4), ("unsigned int", "u4", 4), ("float", "f4", 4), ("double", "f8", 8)]):
    order = "<" if i % 2 else ">"
    endian = "little" if i % 2 else "big"
    space = ["left-posterior-superior", "right-anterior-superior", "left-anterior-superior",
             "RAS", "LPS", "scanner-xyz"][i % 6]
    nrrd(f"type_{code}.nrrd",
         f"type: {kind}\nendian: {endian}\nspace: {space}\n" + base + turned, voxels(code, 1, order))
nrrd("gzip.nrrd", "type: short\nendian: little\nspace: RAS\n" + base.replace("raw", "gzip") + turned,
     voxels("i2"), gz=True)
nrrd("detached.nhdr", "type: short\nendian: little\nspace: RAS\n" + base + turned, voxels("i2"),
     "detached.raw")
nrrd("detached_gz.nhdr", "type: short\nendian: little\nspace: RAS\n" + base.replace("raw", "gz") +
     turned, voxels("i2"), "detached.raw.gz", gz=True)
nrrd("skip.nhdr", "type: short\nendian: little\nspace: LPS\nbyte skip: 7\n" + base + turned,
     b"1234567" + voxels("i2"), "skip.raw")
nrrd("skip_all.nhdr", "type: short\nendian: little\nspace: LPS\nbyteskip: -1\n" + base + turned,
     b"1234567" + voxels("i2"), "skip_all.raw")
nrrd("spacings.nrrd", "type: uchar\n" + base + "spacings: 0.5 2 3\n", voxels("u1"))
nrrd("plain.nrrd", "type: uchar\n" + base, voxels("u1"))
nrrd("vector.nrrd", f"type: float\nendian: little\nspace: LPS\ndimension: 4\nsizes: 2 {X} {Y} {Z}\n"
     "encoding: raw\nkinds: vector domain domain domain\nspace directions: none (0,2,0) (-1.5,0,0) "
     "(0,0,3)\nspace origin: (1,2,3)\n", voxels("f4", 2))
nrrd("list.nrrd", f"type: short\nendian: big\nspace: RAS\ndimension: 4\nsizes: {X} {Y} {Z} 3\n"
     "encoding: raw\nkinds: domain domain domain list\nspace directions: (0,2,0) (-1.5,0,0) (0,0,3) "
     "none\nspace origin: (1,2,3)\n", voxels("i2", 3, ">"))
nrrd("rgb.nrrd", f"type: uchar\ndimension: 4\nsizes: 3 {X} {Y} {Z}\nencoding: raw\n"
     "kinds: RGB-color domain domain domain\nspacings: nan 1 2 3\n", voxels("u1", 3))
nrrd("spaced.nrrd", "type: short\nendian: little\nspace: LPS\n" + base +
     "space directions: (1, 0, 0) (0, 2, 0) (0, 0, 3)\nspace origin: (1, 2, 3)\n", voxels("i2"))

space4 = f"type: short\nendian: little\ndimension: 4\nsizes: {X} {Y} {Z} 3\nencoding: raw\n"
# As SimpleITK writes four axes.
nrrd("four.nrrd", space4 + "space dimension: 4\nspace directions: (0,2,0,0) (-1.5,0,0,0) (0,0.1,3,0) "
     "(0,0,0,4)\nkinds: domain domain domain domain\nspace origin: (10,-20,30.5,7)\n", voxels("i2", 3))
nrrd("capitals.nrrd", "Type: SHORT\nEndian: Little\nSpace: Left-Posterior-Superior\nDimension: 3\n"
     f"SIZES: {X} {Y} {Z}\nEncoding: GZIP\nKinds: Domain SPACE domain\n" +
     turned.replace("space", "Space"), voxels("i2"), gz=True)
nrrd("letters.nrrd", "type: short\nendian: little\nspace: lps\n" + base + turned, voxels("i2"))
nrrd("limits.nrrd", "type: uchar\n" + base + "spacings: 0.5 2 3\naxis mins: 1 2 3\naxis maxs: 9 9 9\n"
     "centerings: node cell ???\n",
     voxels("u1"))
numbers = " ".join(str(v * 3 - 30) for v in range(X * Y * Z)).encode() + b"\n"
for name in "ascii", "text":
    nrrd(name + ".nrrd", "type: short\nspace: RAS\n" + base.replace("raw", name) + turned,
         numbers.replace(b" ", b",\n") if name == "text" else numbers)
nrrd("hex.nrrd", "type: ushort\nendian: big\nspace: RAS\n" + base.replace("raw", "hex") + turned,
     b"\n".join(voxels("u2", 1, ">").hex()[i:i + 20].encode() for i in range(0, 96, 20)) + b"\n")
nrrd("line.nhdr", "type: short\nendian: little\nline skip: 2\nbyte skip: 3\n" + base,
     b"a line\nanother\nabc" + voxels("i2"), "line.raw")
nrrd("line_end.nrrd", "type: uchar\n" + base, voxels("u1") + b"\n")

meta = (f"NDims = 3\nTransformMatrix = 0 1 0 -1 0 0 0 0 1\nOffset = 10 -20 30.5\n"
        f"CenterOfRotation = 0 0 0\nAnatomicalOrientation = RAI\nElementSpacing = 1.5 2 3\n"
        f"DimSize = {X} {Y} {Z}\n")
for i, (kind, code) in enumerate([("CHAR", "i1"), ("UCHAR", "u1"), ("SHORT", "i2"),
                                  ("USHORT", "u2"), ("INT", "i4"), ("UINT", "u4"),
                                  ("LONG_LONG", "i8"), ("FLOAT", "f4"), ("DOUBLE", "f8")]):
    big = i % 2 == 0
    mha(f"type_{code}.mha", f"BinaryDataByteOrderMSB = {big}\n" + meta + f"ElementType = MET_{kind}\n",
        voxels(code, 1, ">" if big else "<"))
mha("packed.mha", meta + "ElementType = MET_SHORT\n", voxels("i2"), packed=True)
mha("detached.mhd", meta + "ElementType = MET_SHORT\n", voxels("i2"), "mhd.raw")
mha("detached_packed.mhd", meta + "ElementType = MET_SHORT\n", voxels("i2"), "mhd.zraw", True)
mha("skip.mhd", meta + "HeaderSize = 9\nElementType = MET_SHORT\n", b"123456789" + voxels("i2"),
    "mhd_skip.raw")
mha("skip_all.mhd", meta + "HeaderSize = -1\nElementType = MET_SHORT\n", b"123456789" + voxels("i2"),
    "mhd_skip_all.raw")
mha("vector.mha", meta + "ElementNumberOfChannels = 3\nElementType = MET_FLOAT\n", voxels("f4", 3))
# As SimpleITK writes what it read from NIfTI.
mha("others_fields.mha", "BinaryDataByteOrderMSB = False\n" + meta + "ITK_original_spacing = 1.5 2 3\n"
    "dim[0] = 3\nqform_code_name = NIFTI_XFORM_SCANNER_ANAT\nscl_slope = 2\nElementType = MET_SHORT\n",
    voxels("i2"))
mha("long.mha", "BinaryDataByteOrderMSB = false\n" + meta + "ElementType = MET_LONG\n", voxels("i4"))
mha("fields.mha", "ID = 3\nParentID = -1\nAcquisitionDate = 2020-01-02\nColor = 1 1 1 1\nNDims = 3\n"
    f"DistanceUnits = mm\nElementSpacing = 1 2 3\nDimSize = {X} {Y} {Z}\nElementNBits = 16\n"
    "ElementToIntensityFunctionSlope = 2\nElementToIntensityFunctionOffset = 5\n"
    "ElementType = MET_SHORT\n", voxels("i2"))
for i in range(Z):
    files[f"slice{i + 1:02d}.raw"] = voxels("i2")[i * 2 * X * Y:(i + 1) * 2 * X * Y]
mha("pattern.mhd", meta + "ElementType = MET_SHORT\n", b"", f"slice%02d.raw 1 {Z} 1")
mha("slices.mhd", meta + "ElementType = MET_SHORT\n", b"", "LIST\nslice02.raw\nslice01.raw")
mha("size.mha", f"NDims = 3\nDimSize = {X} {Y} {Z}\nElementSize = 1 2 3\nPosition = 1 2 3\n"
    "ElementType = MET_UCHAR\n", voxels("u1"))

os.makedirs(folder, exist_ok=True)
for name, content in files.items():
    with open(f"{folder}/{name}", "wb") as out:
        out.write(content)
golden = {}
for name in files:
    if not name.endswith((".nrrd", ".nhdr", ".mha", ".mhd")):
        continue
    image = sitk.ReadImage(f"{folder}/{name}")
    n = image.GetDimension()
    data = sitk.GetArrayFromImage(image).astype(np.float64)  # [(T,) Z, Y, X (, C)]
    if n == 4:
        data = np.moveaxis(data, 0, -1)
    elif image.GetNumberOfComponentsPerPixel() == 1:
        data = data[..., None]
    data = data.transpose(3, 2, 1, 0)
    direction = np.array(image.GetDirection()).reshape(n, n)[:3, :3]
    affine = np.eye(4)
    affine[:3, :3] = direction * np.array(image.GetSpacing()[:3])
    affine[:3, 3] = image.GetOrigin()[:3]
    affine = np.diag([-1, -1, 1, 1]) @ affine
    golden[name] = {"affine": affine.ravel().tolist(), "shape": list(data.shape),
                    "voxels": data.ravel().astype(int).tolist()}
    assert np.all(data == data.astype(int))
with open(f"{folder}/volumes.json", "w") as out:
    out.write("{\n" + ",\n".join(f'"{k}": {json.dumps(v, separators=(",", ":"))}'
                                 for k, v in sorted(golden.items())) + "\n}\n")
print(len(golden), "volumes by SimpleITK", sitk.Version_VersionString())
