"""Reads the files of write_sample_file with h5py and HDF5's own tools.

    check_with_h5py.py <write_sample_file> [<folder of h5dump and h5ls>]
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

WRITE_SAMPLE_FILE = sys.argv[1]
TOOLS = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None

# What each dtype is in the file, as HDF5 calls it in h5dump.
HDF5_NAMES = {
    "float16": "16-bit little-endian floating-point",
    "bfloat16": "16-bit little-endian floating-point",
    "float32": "H5T_IEEE_F32LE",
    "float64": "H5T_IEEE_F64LE",
    "int8": "H5T_STD_I8LE",
    "int16": "H5T_STD_I16LE",
    "int32": "H5T_STD_I32LE",
    "int64": "H5T_STD_I64LE",
    "uint8": "H5T_STD_U8LE",
    "bool": "H5T_ENUM",
    "uint16": "H5T_STD_U16LE",
    "uint32": "H5T_STD_U32LE",
    "uint64": "H5T_STD_U64LE",
    "complex32": "H5T_COMPOUND",
    "complex64": "H5T_COMPOUND",
    "complex128": "H5T_COMPOUND",
}

# As numpy reads them; the rest are integers of the same size, with the name in an attribute.
NUMPY_TYPES = {
    **{name: name for name in HDF5_NAMES if name not in ("bfloat16", "complex32")},
    "bfloat16": "<u2",
    "complex32": [("r", "<f2"), ("i", "<f2")],
}


def numpy_type(dtype):
    return np.dtype(NUMPY_TYPES.get(dtype, "<u2" if dtype == "bits16" else "u1"))


def write_sample(kind, folder, clock=1_700_000_000, perturb=0):
    """Runs the helper. `perturb`: the byte that malloc fills fresh memory with (glibc)."""
    stem = pathlib.Path(folder) / f"{kind}-{clock}-{perturb}"
    file, expected = stem.with_suffix(".h5"), stem.with_suffix(".json")
    subprocess.run(
        [WRITE_SAMPLE_FILE, kind, file, expected],
        env={**os.environ, "SAMPLE_TIME": str(clock), "MALLOC_PERTURB_": str(perturb)},
        check=True,
    )
    return file, json.loads(expected.read_text())


def part_bytes(part, start, length):
    j = np.arange(start, start + length, dtype=np.int64)
    return ((31 * part + 7 * j + 13 * (j // 256) + 3) % 256).astype(np.uint8).tobytes()


def num_bytes(entry):
    return int(np.prod(entry["shape"], dtype=np.int64)) * numpy_type(entry["dtype"]).itemsize


def expected_values(entry):
    """As h5py gives them, bfloat16 widened to float32."""
    raw = part_bytes(entry["part"], entry["start"], num_bytes(entry))
    values = np.frombuffer(raw, numpy_type(entry["dtype"]))
    if entry["dtype"] == "bfloat16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.reshape(entry["shape"])


def objects(group, prefix=""):
    """Every path with its object, those with several paths several times."""
    for name, item in group.items():
        yield prefix + name, item
        if isinstance(item, h5py.Group):
            yield from objects(item, prefix + name + "/")


class SampleFileTest(unittest.TestCase):
    kinds = ("gradients", "state", "nothing")

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.samples = {kind: write_sample(kind, cls.folder.name) for kind in cls.kinds}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def each_sample(self):
        for path, expected in self.samples.values():
            with h5py.File(path, "r") as file:
                yield file, expected

    def test_file_holds_just_the_expected_objects(self):
        for file, expected in self.each_sample():
            found = {"groups": [], "datasets": []}
            dtypes = {entry["path"]: entry["dtype"] for entry in expected["datasets"]}
            for name, item in objects(file):
                found["datasets" if isinstance(item, h5py.Dataset) else "groups"].append(name)
                attributes = {key: np.asarray(value).tolist() for key, value in item.attrs.items()}
                if name in expected["sparse"]:
                    self.assertEqual(attributes, {"shape": expected["sparse"][name]}, name)
                elif dtypes.get(name, "float32") not in NUMPY_TYPES:
                    self.assertEqual(attributes, {"dtype": dtypes[name].encode()}, name)
                else:
                    self.assertEqual(attributes, {}, name)
            datasets = [entry["path"] for entry in expected["datasets"]] + ["manifest"]
            self.assertEqual(sorted(found["groups"]), sorted(expected["groups"]))
            self.assertEqual(sorted(found["datasets"]), sorted(datasets))

    def test_values_shapes_and_dtypes_are_equal(self):
        for file, expected in self.each_sample():
            for entry in expected["datasets"]:
                dataset = file[entry["path"]]
                values = expected_values(entry)
                self.assertEqual(dataset.shape, values.shape, entry)
                self.assertEqual(dataset.dtype, values.dtype, entry)
                read = dataset[()]
                if entry["dtype"] == "bfloat16":  # Which NaN it is may differ.
                    np.testing.assert_array_equal(read, values, str(entry))
                elif entry["dtype"] == "bool":  # numpy makes every other byte a 1.
                    np.testing.assert_array_equal(read, values.view("u1") != 0, str(entry))
                else:
                    self.assertEqual(read.tobytes(), values.tobytes(), entry)

    def test_datasets_lie_where_the_placement_says_and_are_contiguous(self):
        for file, expected in self.each_sample():
            end = os.path.getsize(file.filename)
            for entry in expected["datasets"]:
                dataset = file[entry["path"]]
                self.assertIsNone(dataset.chunks, entry)
                self.assertEqual(dataset.id.get_storage_size(), num_bytes(entry), entry)
                if num_bytes(entry) > 0:
                    self.assertEqual(dataset.id.get_offset(), entry["offset"], entry)
                    self.assertLessEqual(entry["offset"] + num_bytes(entry), end, entry)
                created = dataset.id.get_create_plist()
                self.assertEqual(created.get_layout(), h5py.h5d.CONTIGUOUS, entry)
                self.assertEqual(created.get_alloc_time(), h5py.h5d.ALLOC_TIME_EARLY, entry)
                self.assertEqual(created.get_fill_time(), h5py.h5d.FILL_TIME_NEVER, entry)
                self.assertFalse(created.get_obj_track_times(), entry)

    def test_manifest_is_one_padded_utf8_string(self):
        for file, expected in self.each_sample():
            manifest = file["manifest"]
            self.assertEqual(manifest.shape, ())
            self.assertEqual(manifest.id.get_offset(), expected["manifest_offset"])
            kind = manifest.id.get_type()
            self.assertFalse(kind.is_variable_str())
            self.assertEqual(kind.get_size(), expected["manifest_slot"])
            self.assertEqual(kind.get_cset(), h5py.h5t.CSET_UTF8)
            self.assertEqual(kind.get_strpad(), h5py.h5t.STR_SPACEPAD)
            self.assertEqual(manifest[()].decode("utf-8").rstrip(" "), expected["manifest"])

    def test_user_block_is_the_seal_and_length_a_multiple_of_pages(self):
        for file, _ in self.each_sample():
            self.assertEqual(file.userblock_size, 4096)
            self.assertEqual(os.path.getsize(file.filename) % 4096, 0)

    def test_bytes_do_not_depend_on_process_clock_or_fresh_memory(self):
        for kind, (path, _) in self.samples.items():
            with self.subTest(kind):
                later, _ = write_sample(kind, self.folder.name, clock=1_800_000_003, perturb=0xA5)
                self.assertEqual(path.read_bytes(), later.read_bytes())

    def test_file_cut_before_hdf5_s_end_is_refused(self):
        """So h5py does check the end that the superblock names."""
        path, expected = self.samples["gradients"]
        end = max(entry["offset"] + num_bytes(entry) for entry in expected["datasets"])
        for length, opens in ((end, True), (end - 1, False)):
            cut = pathlib.Path(self.folder.name) / f"cut-{length}.h5"
            cut.write_bytes(path.read_bytes()[:length])
            if opens:
                h5py.File(cut, "r").close()
            else:
                with self.assertRaisesRegex(OSError, "truncated"):
                    h5py.File(cut, "r")

    @unittest.skipIf(TOOLS is None, "without HDF5's tools")
    def test_h5dump_and_h5ls_list_it(self):
        for kind, (path, expected) in self.samples.items():
            with self.subTest(kind):
                done = subprocess.run([TOOLS / "h5dump", "-H", path], capture_output=True, check=True)
                header = done.stdout.decode("utf-8", "replace")
                self.assertEqual(done.stderr, b"")
                listed = [entry for entry in expected["datasets"] if not entry["link"]]
                spaces = header.count("DATASPACE ") - header.count("ATTRIBUTE ")
                self.assertEqual(spaces, len(listed) + 1)
                for entry in listed:
                    if entry["dtype"] in HDF5_NAMES:
                        self.assertIn(HDF5_NAMES[entry["dtype"]], header)
                done = subprocess.run([TOOLS / "h5ls", "-r", path], capture_output=True, check=True)
                self.assertEqual(done.stdout.count(b" Dataset {"), len(listed) + 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
