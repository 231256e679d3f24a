"""A snapshot as h5py sees it: check_snapshot_with_h5py.py PATH_OF_write_snapshot"""
import json
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np

with tempfile.TemporaryDirectory() as name:
    directory = pathlib.Path(name)
    snapshot = subprocess.run([sys.argv[1], directory], check=True, text=True, capture_output=True).stdout.strip()
    rank = directory / "store" / "rank-00000"
    checked = 0
    with h5py.File(rank / "snapshots" / f"{snapshot}.h5") as file:
        for line in (directory / "shapes.txt").read_text().splitlines():
            group, param, dtype, *shape = line.split()
            expected = np.fromfile(directory / f"{param}.f64").reshape([int(extent) for extent in shape])
            dataset = file[f"gradients/{group}/{param}/0"]
            assert dataset.shape == expected.shape, (param, dataset.shape)
            assert np.array_equal(dataset[()].astype(np.float64), expected), param
            if dtype not in ("BFloat16",):  # which h5py widens to float32
                numpy_dtype = {"Half": "f2", "Float": "f4", "Double": "f8", "Char": "i1", "Short": "i2",
                               "Int": "i4", "Long": "i8", "Byte": "u1"}[dtype]
                assert dataset.dtype == np.dtype(numpy_dtype), (param, dataset.dtype)
            checked += 1
        manifest = json.loads(file["manifest"][()])
        assert manifest["step"] == 3 and manifest["user"] == {"note": "hello"}, manifest
    with h5py.File(rank / "state" / f"{snapshot}.h5") as file:
        expected = np.fromfile(directory / "float32.f64").reshape(50, 7)
        assert np.array_equal(file["state/weights"][()].astype(np.float64), expected)
        assert json.loads(file["manifest"][()])["user"] == {"position": 17}
    assert checked == 13, checked
    print(f"{checked} slices read by h5py {h5py.__version__} equal the tensors")
