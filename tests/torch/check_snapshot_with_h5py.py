"""A snapshot as h5py sees it: check_snapshot_with_h5py.py PATH_OF_write_snapshot"""
import json
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np

# What h5py makes of each dtype; the others are unsigned integers, with the name as an attribute.
NUMPY = {
    "float16": "f2", "bfloat16": "f4", "float32": "f4", "float64": "f8", "int8": "i1", "int16": "i2",
    "int32": "i4", "int64": "i8", "uint8": "u1", "bool": "bool", "uint16": "u2", "uint32": "u4",
    "uint64": "u8", "complex32": [("r", "<f2"), ("i", "<f2")], "complex64": "c8", "complex128": "c16",
}


def stored_bytes(dataset):
    """As they lie in the file, not converted."""
    kind = dataset.id.get_type()
    raw = np.zeros(dataset.size * kind.get_size(), np.uint8)
    if raw.size > 0:
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, raw, mtype=kind)
    return raw.tobytes()


def check_dataset(file, entry, directory):
    dataset = file[entry["path"]]
    where = entry["path"][:80]
    expected = (directory / entry["file"]).read_bytes()
    if entry["path"].startswith("gradients/") and entry["path"].endswith(("/indices", "/values")):
        entries, coalesced = file[entry["path"].rsplit("/", 1)[0] + "/entries"][()]
        assert (entries, coalesced) == (4, 0), (entries, coalesced)
        assert dataset[()][..., :4].tobytes() == expected or dataset[:4].tobytes() == expected, where
        return
    assert dataset.shape == tuple(entry["shape"]), (where, dataset.shape)
    assert stored_bytes(dataset) == expected, where
    dtype = np.dtype(NUMPY.get(entry["dtype"], "u2" if entry["dtype"] == "bits16" else "u1"))
    assert dataset.dtype == dtype, (where, dataset.dtype)
    name = dataset.attrs.get("dtype", b"").decode()
    assert name == ("" if entry["dtype"] in NUMPY else entry["dtype"]), (where, name)
    if entry["dtype"] == "bfloat16":
        widened = (np.frombuffer(expected, "<u2").astype(np.uint32) << 16).view(np.float32)
        np.testing.assert_array_equal(dataset[()].ravel(), widened)


with tempfile.TemporaryDirectory() as name:
    directory = pathlib.Path(name)
    snapshot = subprocess.run([sys.argv[1], directory], check=True, text=True, capture_output=True).stdout.strip()
    expected = json.loads((directory / "expected.json").read_text())
    rank = directory / "store" / "rank-00000"
    with h5py.File(rank / "snapshots" / f"{snapshot}.h5") as file:
        for entry in expected["datasets"]:
            check_dataset(file, entry, directory)
        assert len(expected["links"]) == 1
        for path, to in expected["links"].items():
            assert file[path] == file[to], path
        manifest = json.loads(file["manifest"][()])
        assert manifest["step"] == 3 and manifest["user"] == {"note": "hello"}, manifest
    with h5py.File(rank / "state" / f"{snapshot}.h5") as file:
        assert stored_bytes(file["state/weights"]) == (directory / expected["datasets"][0]["file"]).read_bytes()
        assert json.loads(file["manifest"][()])["user"] == {"position": 17}
    assert len(expected["datasets"]) == 7 + 40 + 10 + 2, len(expected["datasets"])
    print(f"{len(expected['datasets'])} datasets read by h5py {h5py.__version__} equal the tensors")
