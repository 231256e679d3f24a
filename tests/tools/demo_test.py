"""Runs tools/demo as a user would, and then the commands that README and the demo name.

usage: demo_test.py SOURCE_FOLDER
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

source = pathlib.Path(sys.argv[1])
grad_inspect = source / "build/release/bin/grad-inspect"


def run(*command, status=0):
    done = subprocess.run([str(part) for part in command], cwd=source, text=True, capture_output=True)
    print("$", *command, f"-> {done.returncode}", done.stdout, done.stderr, sep="\n")
    assert done.returncode == status, f"exit status {done.returncode} instead of {status}: {command}"
    return done.stdout


def demo(directory, *options, status=0):
    return run("tools/demo", "--steps", 6, "--dir", directory, *options, status=status)


(source / "build/demo").mkdir(parents=True, exist_ok=True)
scratch = pathlib.Path(tempfile.mkdtemp(prefix="test-", dir=source / "build/demo"))
try:
    output = demo(scratch / "whole")
    assert "\nbit-identical: yes\n" in output, output
    step, micro_step = re.search(r"killed with SIGKILL in step (\d+), after micro-step (\d) of 8", output).groups()
    assert 0 < int(micro_step) < 8
    resumed = re.search(r"resumed from snapshot \S+: step (\d+), micro-step (\d) of 8", output).groups()
    assert resumed[0] == step and 0 < int(resumed[1]) <= int(micro_step), resumed
    assert "(exit status 0," in re.search(r"while it trains: grad-inspect ls .*", output).group(0), output
    assert re.search(r"compared from step \d+.*: [1-9]\d* gradient digests, [1-9]\d* parameter digests", output), output

    # The commands that it names, as they stand, and README's with the demo's store in STORE's place.
    store = re.search(r"^store: (.*)$", output, re.M).group(1)
    named = re.findall(r"^  (build/release/bin/grad-inspect .*)$", output, re.M)
    readme = (source / "README.md").read_text()
    shown = [line for line in re.findall(r"^(build/release/bin/grad-inspect .*)$", readme, re.M)]
    assert len(named) >= 4 and len(shown) >= 4, (named, shown)
    for command in named + [line.replace("STORE", store) for line in shown]:
        run("bash", "-c", command.split("   #")[0])

    # Forgetting any part on the resume must show.
    for part in ("gradients", "rng", "optimizer"):
        output = demo(scratch / part, "--break-resume", part, status=1)
        assert "\nbit-identical: no\n" in output, output
finally:
    shutil.rmtree(scratch)
