"""grad-inspect from the outside: what it prints, its JSON, its exit status.

    grad_inspect_test.py GRAD_INSPECT MAKE_STORE [unittest argument...]
"""

import base64
import json
import os
import pathlib
import pty
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

PROGRAM = MAKE_STORE = None  # Set from the arguments.

FINE, FINDINGS, TROUBLE, DAMAGED, NOTHING = range(5)
GRADIENTS = "rank-00000/snapshots/0001-00000003.h5"


def environment(**changes):
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CLICOLOR_FORCE")}
    return {**env, "TERM": "xterm", **changes}


def run(*arguments, **options):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, timeout=60,
                          env=environment(**options))


def picture(root):
    """Names, sizes, times and modes of everything below `root`."""
    found = {}
    for path in [root, *sorted(root.rglob("*"))]:
        status = path.lstat()
        found[str(path)] = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode)
    return found


class Writer:
    """A process that has the store open."""

    def __init__(self, store, mode):
        self.process = subprocess.Popen([MAKE_STORE, store, mode], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def save(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "saved\n"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


class Case(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="grad_inspect_")
        cls.pristine = pathlib.Path(cls.folder.name) / "pristine"
        subprocess.run([MAKE_STORE, cls.pristine], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        self.store = pathlib.Path(self.folder.name) / "store"
        shutil.copytree(self.pristine, self.store)

    def tearDown(self):
        shutil.rmtree(self.store, ignore_errors=True)

    def expect(self, status, *arguments, **options):
        result = run(*arguments, **options)
        self.assertEqual(result.returncode, status, (arguments, result))
        if status in (FINE, FINDINGS):
            self.assertEqual(result.stderr, b"")
        return result.stdout.decode()

    def refused(self, status, *arguments):
        result = run(*arguments)
        self.assertEqual(result.returncode, status, (arguments, result))
        self.assertEqual(result.stdout, b"")
        return result.stderr.decode()

    def json(self, status, *arguments):
        document = json.loads(self.expect(status, *arguments, "--json"),
                              parse_constant=lambda name: self.fail(f"{name} is no JSON"))
        self.assertEqual(document["schema_version"], 1)
        return document

    def flip(self, path, offset):
        with open(self.store / path, "r+b") as file:
            file.seek(offset)
            byte = file.read(1)
            file.seek(offset)
            file.write(bytes([byte[0] ^ 1]))


class InfoTest(Case):
    def test_text_has_the_facts(self):
        text = self.expect(FINE, "info", self.store)
        for fact in ("sample run", "3 committed", "0001-00000003: step 1, micro-step 8 of 8, post_reduce",
                     "none: no process has it open", "2025-12-01 02:29:24 UTC", "8, of which 1 without gradient"):
            self.assertIn(fact, text)

    def test_json_has_the_facts(self):
        info = self.json(FINE, "info", self.store)
        self.assertEqual(info["snapshots"], {"committed": 3, "damaged": 0})
        self.assertEqual(info["last_durable"]["id"], "0001-00000003")
        self.assertEqual(info["steps"], {"first": 0, "last": 1})
        self.assertEqual(info["stages"], ["pre_reduce", "post_reduce", "clipped"])
        self.assertEqual((info["groups"], info["params"], info["params_without_gradient"]), (3, 8, 1))
        self.assertEqual(info["slices_by_dtype"]["float32"], 3)
        self.assertFalse(info["open_for_writing"])
        self.assertIsNone(info["ranks"][0]["writer_pid"])
        files = [p.stat().st_size for p in self.store.glob("rank-00000/*/*")]
        self.assertEqual(info["bytes_on_disk"]["total"], sum(files))

    def test_unreadable_lock_hides_nothing_else(self):
        lock = self.store / "rank-00000/lock"
        lock.unlink()
        lock.symlink_to("lock")  # A loop: cannot be opened, by root neither.
        self.assertIn("unknown: Opening the lock", self.expect(FINE, "info", self.store))
        self.assertIsNone(self.json(FINE, "info", self.store)["open_for_writing"])
        self.assertIn("embed.weight", self.expect(FINE, "ls", self.store))
        self.expect(FINE, "verify", self.store)

    def test_damage_is_counted(self):
        os.truncate(self.store / GRADIENTS, 100)
        info = self.json(DAMAGED, "info", self.store)
        self.assertEqual(info["snapshots"], {"committed": 2, "damaged": 1})
        self.assertEqual(info["last_durable"]["id"], "0001-00000002")

    def test_lost_index_is_damage(self):
        shutil.rmtree(self.store / "rank-00000/index")
        result = run("info", self.store)
        self.assertEqual(result.returncode, DAMAGED)
        self.assertIn(b"snapshot files but no index", result.stderr)


class LsTest(Case):
    def test_table_is_a_tree_of_groups_and_params(self):
        lines = self.expect(FINE, "ls", self.store).splitlines()
        self.assertEqual(lines[:10], [
            "snapshot 0001-00000003  step 1, micro-step 8 of 8, post_reduce  2025-12-01 02:29:24 UTC",
            "",
            "GROUP  PARAM             SLICES  ELEMENTS  BYTES  NOTE",
            "    7  embed.weight           2       200  808 B",
            "       never.used                                 absent: no gradient",
            "    9                                             no params",
            r"    3  head.\x1b[31mred       1         7   14 B  1 nan, 2 inf",
            r"       \xff\xfe.half          1         5   10 B  1 nan",
            "       block.0.empty          1         0    0 B",
            "       block.0.scalar         1         1    8 B",
        ])

    def test_long_form_has_a_line_for_each_slice(self):
        text = self.expect(FINE, "ls", "-l", f"{self.store}@param=embed*")
        rows = [line.split() for line in text.splitlines()[2:5]]
        self.assertEqual(rows[0], "GROUP PARAM SLICE DTYPE SHAPE ELEMENTS BYTES NORM ABSMAX NAN INF ZERO".split())
        self.assertEqual(rows[1], "7 embed.weight 0 float32 [101] 0..101 404 B 5.81679 1 0 0 1".split())
        self.assertEqual(rows[2], "1 float32 [101] 101..200 +2 padding 404 B 5.73018 0.99 0 0 0".split())

    def test_json_names_and_numbers(self):
        listing = self.json(FINE, "ls", self.store)
        groups = listing["ranks"][0]["by_group"]
        self.assertEqual([g["group"] for g in groups], [7, 9, 3])
        params = {p["name"]: p for g in groups for p in g["params"]}
        self.assertEqual(params["never.used"]["presence"], "absent")
        self.assertEqual(params["never.used"]["slices"], [])
        head = params["head.\x1b[31mred"]["slices"][0]
        self.assertEqual((head["nan"], head["positive_infinity"], head["negative_infinity"]), (1, 1, 1))
        half = params[r"\xff\xfe.half"]
        self.assertEqual(base64.b64decode(half["name_base64"]), b"\xff\xfe.half")
        empty = params["block.0.empty"]["slices"][0]
        self.assertEqual((empty["absmax"], empty["count"]), ("nan", 0))
        padded = params["embed.weight"]["slices"][1]
        self.assertEqual((padded["begin"], padded["end"], padded["padding"], padded["count"]), (101, 200, 2, 99))

    def test_no_file_is_opened(self):
        for path in self.store.glob("rank-00000/s*/*"):
            with open(path, "r+b") as file:  # The right length, all wrong.
                file.write(bytes(path.stat().st_size))
        self.assertIn("embed.weight", self.expect(FINE, "ls", "-l", self.store))

    def test_output_holds_no_control_bytes(self):
        for arguments in (["ls"], ["ls", "-l"], ["ls", "--json"], ["info"], ["verify"], ["ls", "--snapshots"]):
            output = run(*arguments, self.store).stdout
            self.assertEqual([b for b in output if b < 0x20 and b != 0x0a], [], arguments)
            output.decode()

    def test_sorting(self):
        text = self.expect(FINE, "ls", "-l", "--sort", "nan", self.store)
        order = [line.split()[1] for line in text.splitlines()[3:5]]
        self.assertEqual(sorted(order), [r"\xff\xfe.half", r"head.\x1b[31mred"])

    def test_snapshots(self):
        text = self.expect(FINE, "ls", "--snapshots", self.store).splitlines()
        self.assertEqual(len(text), 6)
        self.assertEqual(text[1].split()[:5], ["0001-00000001", "0", "4/8", "pre_reduce", "committed"])
        listing = self.json(FINE, "ls", "--snapshots", f"{self.store}@stage=clipped")
        self.assertEqual([s["id"] for s in listing["snapshots"]], ["0001-00000002"])

    def test_selectors_choose_the_snapshot(self):
        for selector, expected in (("step=0", 1), ("step=latest", 3), ("stage=clipped", 2), ("micro=4", 1),
                                   ("snapshot=1-2", 2), ("step=0..9", 3), ("attempt=1,step=0..1:2", 1)):
            listing = self.json(FINE, "ls", f"{self.store}@{selector}")
            self.assertEqual(listing["ranks"][0]["id"], f"0001-{expected:08}", selector)
        self.assertIn("the newest of 2 that match", self.expect(FINE, "ls", f"{self.store}@step=1"))

    def test_newest_damaged_snapshot_is_still_listed_and_said_to_be_damaged(self):
        os.remove(self.store / GRADIENTS)
        self.assertIn("damaged: a file is missing", self.expect(DAMAGED, "ls", self.store))


class ShowTest(Case):
    def test_values_of_every_dtype(self):
        shown = {"head*": "0.1  -1  inf  -inf  nan  0  -0", "*half": "0.1  65500  6e-08  nan  -0",
                 "*scalar": "0.1", "*count": "-5  0  9223372036854775807", "*zeros": "0  0  0  0  0  0"}
        for pattern, values in shown.items():
            last = self.expect(FINE, "show", f"{self.store}@param={pattern}", "--values", ":").splitlines()[-1]
            self.assertEqual(last.split(":")[1].split(), values.split(), pattern)

    def test_values_in_json_are_exact(self):
        [half] = self.json(FINE, "show", f"{self.store}@param=*half", "--values", ":")["slices"]
        self.assertEqual(half["values"]["elements"], [0.0999755859375, 65504, 2.0 ** -24, "nan", -0.0])
        [count] = self.json(FINE, "show", f"{self.store}@param=*count", "--values", "2:99")["slices"]
        self.assertEqual(count["values"], {"begin": 2, "end": 3, "elements": [2 ** 63 - 1]})

    def test_values_of_one_slice_and_its_padding(self):
        text = self.expect(FINE, "show", f"{self.store}@param=embed.weight", "--slice", "1", "--values", "98:")
        self.assertIn("98:   0.99  1e+30  1e+30  (padding from 99)", text)
        self.assertNotIn("slice 0", text)

    def test_shown_names_find_themselves(self):
        for name in (r"\xff\xfe.half", r"head.\x1b\[31mred"):
            [found] = self.json(FINE, "show", f"{self.store}@param={name}")["slices"]
            self.assertEqual(found["group"], 3)

    def test_absent_param_has_no_slice(self):
        text = self.expect(FINE, "show", f"{self.store}@param=never.used")
        self.assertIn("absent: it had no gradient", text)
        self.assertNotIn("norm", text)

    def test_manifest(self):
        [snapshot] = self.json(FINE, "show", self.store, "--manifest")["snapshots"]
        self.assertEqual(snapshot["manifest"]["user"], {"position": 1234})
        self.assertIn('"position": 1234', self.expect(FINE, "show", self.store, "--manifest"))

    def test_damaged_values_are_not_shown(self):
        [slice_] = self.json(FINE, "show", f"{self.store}@param=*half", "--values", "0:1")["slices"]
        self.flip(GRADIENTS, slice_["offset"] + 8)  # An element that was not asked for.
        result = run("show", f"{self.store}@param=*half", "--values", "0:1")
        self.assertEqual(result.returncode, DAMAGED)
        self.assertIn(b"slice 0 is damaged", result.stderr)

    def test_limit(self):
        listing = self.json(FINE, "show", f"{self.store}@param=*", "--limit", "2")
        self.assertEqual((len(listing["slices"]), listing["slices_left_out"]), (2, 7))


class VerifyTest(Case):
    def test_whole_store(self):
        text = self.expect(FINE, "verify", self.store)
        self.assertRegex(text, r"checked 3 snapshots: 4 files, 25 slices, 76\.0 KiB in \d+\.\d\d s\n"
                               r"every byte is as it was written\n")

    def test_flipped_bytes_are_found_and_named(self):
        slices = self.json(FINE, "show", f"{self.store}@param=*", "--values", "0:0")["slices"]
        for slice_ in slices:
            if not slice_.get("offset"):
                continue
            self.flip(GRADIENTS, slice_["offset"])
            [damage] = self.json(DAMAGED, "verify", self.store)["damage"]
            self.assertEqual((damage["file"], damage["region"], damage["slice"], damage["param"]["name"]),
                             (GRADIENTS, "slice", slice_["slice"], slice_["param"]["name"]))
            self.flip(GRADIENTS, slice_["offset"])
        for offset, region in ((0, "seal"), (4095, "seal"), (5000, "metadata")):
            self.flip(GRADIENTS, offset)
            [damage] = self.json(DAMAGED, "verify", self.store)["damage"]
            self.assertEqual(damage["region"], region)
            self.flip(GRADIENTS, offset)
        self.expect(FINE, "verify", self.store)

    def test_text_names_the_place(self):
        [slice_] = self.json(FINE, "show", f"{self.store}@param=embed*", "--slice", "1", "--values", ":")["slices"]
        self.flip(GRADIENTS, slice_["offset"])
        text = self.expect(DAMAGED, "verify", self.store)
        self.assertIn(f"DAMAGED  {GRADIENTS}\n  slice at byte {slice_['offset']}: "
                      'param "embed.weight", slice 1 is damaged\n', text)
        self.assertIn("1 place damaged or not readable", text)

    def test_selected_snapshots_only(self):
        self.flip(GRADIENTS, 0)
        self.expect(DAMAGED, "verify", f"{self.store}@snapshot=1-3")
        self.expect(FINE, "verify", f"{self.store}@snapshot=1-2")

    def test_left_over_file_is_a_finding(self):
        (self.store / "rank-00000/snapshots/0001-00000004.h5.tmp").write_bytes(b"half")
        self.assertIn("left unfinished by a writer that died", self.expect(FINDINGS, "verify", self.store))

    def test_unreadable_file_is_not_fully_checked(self):
        os.remove(self.store / GRADIENTS)
        (self.store / GRADIENTS).mkdir()  # Opens, but every read fails, for root too.
        self.assertIn("not fully checked", self.expect(DAMAGED, "verify", self.store))


class LiveTest(Case):
    """Beside a writer, after its death, and where nothing can be written."""

    def setUp(self):
        self.store = pathlib.Path(self.folder.name) / "live"

    def test_beside_a_writer(self):
        with Writer(self.store, "hold") as writer:
            info = self.json(FINE, "info", self.store)
            self.assertEqual(info["ranks"][0]["writer_pid"], writer.process.pid)
            self.assertIn(f"process {writer.process.pid} has it open", self.expect(FINE, "info", self.store))
            writer.save()
            self.assertEqual(self.json(FINE, "info", self.store)["last_durable"]["id"], "0001-00000004")
            self.expect(FINE, "verify", self.store)
            writer.save()  # Having looked at the lock has not dropped it.
            self.assertEqual(self.json(FINE, "info", self.store)["ranks"][0]["writer_pid"], writer.process.pid)
        self.assertFalse(self.json(FINE, "info", self.store)["open_for_writing"])

    def test_while_a_writer_is_busy(self):
        with Writer(self.store, "churn"):
            newest = 0
            while newest < 40:
                for command in ("info", "ls", "verify"):
                    self.json(FINE, command, self.store)
                sequence = self.json(FINE, "info", self.store)["last_durable"]["sequence"]
                self.assertGreaterEqual(sequence, newest)
                newest = sequence

    def test_after_sigkill(self):
        with Writer(self.store, "churn") as writer:
            for _ in range(7):
                writer.process.stdout.readline()
            writer.kill()
            info = self.json(FINE, "info", self.store)
            self.assertFalse(info["open_for_writing"])
            self.assertGreaterEqual(info["snapshots"]["committed"], 3 + 7)  # What was told is there.
            self.assertEqual(self.json(FINE, "ls", self.store)["ranks"][0]["id"], info["last_durable"]["id"])
            document = json.loads(run("verify", self.store, "--json").stdout)
            self.assertTrue(document["whole"], document)

    def test_nothing_is_written(self):
        subprocess.run([MAKE_STORE, self.store], check=True)
        everything = sorted(self.store.rglob("*"), reverse=True)
        for path in everything:
            path.chmod(stat.S_IRUSR | (stat.S_IXUSR if path.is_dir() else 0))
        before = picture(self.store)
        for arguments in (["info"], ["ls"], ["ls", "-l"], ["ls", "--snapshots"], ["show", "--manifest"], ["verify"]):
            self.expect(FINE, *arguments, self.store)
        self.assertEqual(picture(self.store), before)
        for path in reversed(everything):
            path.chmod(0o700)

    def test_store_without_a_snapshot_is_nothing_not_an_error(self):
        self.store.mkdir()
        (self.store / "store.json").write_text(json.dumps({
            "format": "gradstore store", "version": 1, "uuid": "00000000-0000-4000-8000-000000000000",
            "run_name": ""}))
        self.assertIn("(no name)", self.expect(FINE, "info", self.store))
        self.assertIn("holds no snapshot yet", self.refused(NOTHING, "ls", self.store))
        self.expect(NOTHING, "verify", self.store)


class RanksTest(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shutil.rmtree(cls.pristine)
        subprocess.run([MAKE_STORE, cls.pristine, "ranks"], check=True)

    def test_incomplete_snapshot_is_said_to_be(self):
        self.assertIn("committed by 1 of 2 ranks", self.expect(FINE, "info", self.store))
        info = self.json(FINE, "info", self.store)
        self.assertEqual((info["world_size"], info["last_durable"]["committed_by_ranks"]), (2, 1))

    def test_all_ranks_of_a_snapshot_are_listed(self):
        text = self.expect(FINE, "ls", f"{self.store}@step=0")
        self.assertIn("RANK  GROUP  PARAM", text)
        self.assertIn("3 groups, 8 params (1 without gradient), 16 slices", text)
        listing = self.json(FINE, "ls", f"{self.store}@step=0")
        self.assertEqual([r["rank"] for r in listing["ranks"]], [0, 1])

    def test_one_rank(self):
        self.assertEqual(self.json(FINE, "ls", f"{self.store}@rank=1")["ranks"][0]["id"], "0001-00000001")

    def test_rank_without_index_does_not_hide_the_other(self):
        shutil.rmtree(self.store / "rank-00001/index")
        result = run("ls", self.store)
        self.assertEqual(result.returncode, DAMAGED)
        self.assertIn(b"embed.weight", result.stdout)
        self.assertIn(b"rank 1 cannot be read", result.stderr)
        document = self.json(DAMAGED, "verify", self.store)
        self.assertEqual([d["rank"] for d in document["damage"]], [1])
        self.assertEqual(document["files"], 3)


class UsageTest(Case):
    def test_usage_errors_are_trouble(self):
        for arguments in ([], ["bogus"], ["ls"], ["ls", "--bogus", self.store], ["ls", self.store, "--sort", "x"],
                          ["ls", "/nowhere"], ["ls", "/"], ["ls", f"{self.store}@step=x"],
                          ["show", self.store, "--values", "0:1"],
                          ["show", f"{self.store}@param=*", "--values", "3"],
                          ["verify", f"{self.store}@param=x"], ["ls", "--snapshots", "-l", self.store]):
            self.assertIn("grad-inspect: ", self.refused(TROUBLE, *arguments), arguments)

    def test_nothing_selected_is_a_status_of_its_own(self):
        for arguments in (["ls", f"{self.store}@step=7"], ["ls", f"{self.store}@param=zzz"],
                          ["show", f"{self.store}@group=1"], ["show", f"{self.store}@param=*", "--slice", "7"],
                          ["verify", f"{self.store}@attempt=9"], ["info", f"{self.store}@rank=3"]):
            self.refused(NOTHING, *arguments)

    def test_newer_store_is_trouble_not_damage(self):
        path = self.store / "store.json"
        path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
        self.assertIn("use a newer one", self.refused(TROUBLE, "ls", self.store))

    def test_path_with_an_at_sign(self):
        odd = self.store.with_name("store@step=1")
        shutil.copytree(self.store, odd)
        self.addCleanup(shutil.rmtree, odd)
        self.assertEqual(self.json(FINE, "ls", f"{odd}@step=0")["ranks"][0]["id"], "0001-00000001")

    def test_help_has_examples(self):
        for arguments in ([], ["info"], ["ls"], ["show"], ["verify"]):
            self.assertIn("Examples:\n  grad-inspect ", self.expect(FINE, *arguments, "--help"))

    def test_closed_pipe_is_quiet(self):
        read, write = os.pipe()
        os.close(read)
        # An inherited "ignore" must not turn it into an error either.
        result = subprocess.run([PROGRAM, "ls", self.store, "-l"], stdout=write, stderr=subprocess.PIPE,
                                preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
        os.close(write)
        self.assertEqual((result.stderr, result.returncode), (b"", -signal.SIGPIPE))

    def test_full_disk_is_trouble(self):
        with open("/dev/full", "wb") as full:
            result = subprocess.run([PROGRAM, "ls", self.store], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, TROUBLE)
        self.assertIn(b"could not be written", result.stderr)

    def on_terminal(self, **env):
        parent, child = pty.openpty()
        subprocess.run([PROGRAM, "ls", self.store], stdout=child, check=True, env=environment(**env))
        os.close(child)
        output = os.read(parent, 65536)
        os.close(parent)
        return output

    def test_colour(self):
        escape = b"\x1b["
        self.assertIn(escape, self.on_terminal())
        self.assertNotIn(escape, self.on_terminal(NO_COLOR="1"))
        self.assertNotIn(escape, self.on_terminal(TERM="dumb"))
        self.assertNotIn(escape, run("ls", self.store).stdout)
        self.assertIn(escape, run("ls", self.store, CLICOLOR_FORCE="1").stdout)
        self.assertIn(escape, run("ls", self.store, "--color", "always").stdout)

    def test_program_is_light(self):
        needed = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
        for library in ("torch", "c10", "hdf5", "python"):
            self.assertNotIn(f"lib{library}", needed)


if __name__ == "__main__":
    PROGRAM, MAKE_STORE = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
