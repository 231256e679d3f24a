"""A snapshot as HDF5 1.8 reads it: check_snapshot_with_hdf5_1_8.py PATH_OF_write_snapshot FOLDER

FOLDER holds the shared libraries of an h5py wheel that was built with HDF5 1.8; its Python part is
not needed. Everything is read as it lies in the file.
"""
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile

hid_t = ctypes.c_int  # 64 bits only since HDF5 1.10


def load(folder):
    for name in ("aec", "sz", "z"):
        (path,) = folder.glob(f"lib{name}-*.so*")
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    (path,) = folder.glob("libhdf5-*.so*")
    library = ctypes.CDLL(path)
    for name, result, arguments in (
        ("H5Fopen", hid_t, (ctypes.c_char_p, ctypes.c_uint, hid_t)),
        ("H5Dopen2", hid_t, (hid_t, ctypes.c_char_p, hid_t)),
        ("H5Dget_type", hid_t, (hid_t,)),
        ("H5Dget_space", hid_t, (hid_t,)),
        ("H5Tget_size", ctypes.c_size_t, (hid_t,)),
        ("H5Sget_simple_extent_npoints", ctypes.c_longlong, (hid_t,)),
        ("H5Dread", ctypes.c_int, (hid_t, hid_t, hid_t, hid_t, hid_t, ctypes.c_void_p)),
        ("H5Dclose", ctypes.c_int, (hid_t,)),
        ("H5Fclose", ctypes.c_int, (hid_t,)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    version = (ctypes.c_uint * 3)()
    library.H5open()
    library.H5get_libversion(*(ctypes.byref(version, 4 * i) for i in range(3)))
    assert tuple(version[:2]) == (1, 8), tuple(version)
    return library, ".".join(map(str, version))


def stored_bytes(library, file, path):
    dataset = library.H5Dopen2(file, path.encode(), 0)
    assert dataset >= 0, path[:80]
    kind = library.H5Dget_type(dataset)
    count = library.H5Sget_simple_extent_npoints(library.H5Dget_space(dataset))
    size = count * library.H5Tget_size(kind)
    buffer = ctypes.create_string_buffer(max(size, 1))
    assert library.H5Dread(dataset, kind, 0, 0, 0, buffer) >= 0, path[:80]
    library.H5Dclose(dataset)
    return buffer.raw[:size]


library, version = load(pathlib.Path(sys.argv[2]))
with tempfile.TemporaryDirectory() as name:
    directory = pathlib.Path(name)
    snapshot = subprocess.run([sys.argv[1], directory], check=True, text=True, capture_output=True).stdout.strip()
    expected = json.loads((directory / "expected.json").read_text())
    path = directory / "store" / "rank-00000" / "snapshots" / f"{snapshot}.h5"
    file = library.H5Fopen(bytes(path), 0, 0)
    assert file >= 0, "HDF5 1.8 does not open it"
    checked = 0
    for entry in expected["datasets"]:
        if entry["path"].endswith(("/indices", "/values")):
            continue  # They have more room than entries; h5py's test compares them.
        assert stored_bytes(library, file, entry["path"]) == (directory / entry["file"]).read_bytes(), entry
        checked += 1
    for link, to in expected["links"].items():
        assert stored_bytes(library, file, link) == stored_bytes(library, file, to), link
    manifest = json.loads(stored_bytes(library, file, "manifest"))
    assert manifest["user"] == {"note": "hello"}, manifest
    library.H5Fclose(file)
    assert checked == 57, checked
    print(f"{checked} datasets read by HDF5 {version} equal the tensors")
