"""Installs the build, moves the prefix, and builds and runs the two consumers against it.

usage: consumer_test.py CMAKE BUILD_FOLDER LIBTORCH_DIR
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

cmake = sys.argv[1]
build = pathlib.Path(sys.argv[2])
libtorch = pathlib.Path(sys.argv[3])
here = pathlib.Path(__file__).resolve().parent
source = here.parent.parent
scratch = build / "consumer_test"
prefix = scratch / "moved"
# Programs must find their libraries by themselves.
environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}


def run(*command, status=0):
    command = [str(part) for part in command]
    done = subprocess.run(command, text=True, capture_output=True, env=environment)
    print(f"$ {shlex.join(command)}  -> {done.returncode}\n{done.stdout}{done.stderr}", flush=True)
    assert done.returncode == status, f"exit status {done.returncode} instead of {status}: {command}"
    return done.stdout + done.stderr


def build_consumer(name, *options):
    folder = scratch / f"build_{name}"
    run(cmake, "-S", here / "consumer" / name, "-B", folder, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_CXX_COMPILER_LAUNCHER={shutil.which('ccache') or ''}",
        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror", *options)
    run(cmake, "--build", folder)
    return folder


def find_package(arguments, *options, status=0):
    """Configures a project that does only that, and prints which targets there are."""
    folder = scratch / "find"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(f"""
        cmake_minimum_required(VERSION 3.25)
        project(find LANGUAGES NONE)
        find_package(gradstore {arguments})
        foreach(target gradstore::archive gradstore::gradstore)
          if(TARGET ${{target}})
            message(STATUS "there is ${{target}}")
          endif()
        endforeach()
        message(STATUS "found: ${{gradstore_FOUND}}")
    """)
    output = run(cmake, "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}", *options, status=status)
    return re.sub(r"\s+", " ", output)  # CMake breaks the lines of messages.


def needed(program):
    """Libraries that the program loads, with the files that are found for them."""
    output = run("ldd", program)
    assert "not found" not in output, output
    return dict(re.findall(r"(\S+) => (\S+)", output))


def search_path(binary):
    return re.findall(r"\((RPATH|RUNPATH)\).*\[(.*)\]", run("readelf", "--dynamic", "--wide", binary))


shutil.rmtree(scratch, ignore_errors=True)
run(cmake, "--install", build, "--prefix", scratch / "installed")
(scratch / "installed").rename(prefix)

# Whole: each public header is there, and nothing points back to where it was built.
installed = sorted(path.name for path in (prefix / "include/gradstore").iterdir())
assert installed == sorted(path.name for path in (source / "include/gradstore").iterdir()), installed
for package_file in prefix.rglob("*.cmake"):
    text = package_file.read_text()
    for place in (source, build, scratch / "installed", libtorch):
        assert str(place) not in text, f"{package_file} names {place}"
(archive_library,) = prefix.rglob("libgradstore-archive.so")
(gradstore_library,) = prefix.rglob("libgradstore.so")
assert search_path(archive_library) == search_path(gradstore_library) == [("RPATH", "$ORIGIN")]
assert search_path(prefix / "bin/grad-inspect") == []

# The consumers.
store = scratch / "store"
train = build_consumer("gradstore", f"-DLIBTORCH_DIR={libtorch}") / "train"
assert "restored bit for bit" in run(train, store)
libraries = needed(train)
assert libraries["libgradstore.so.0.1"].startswith(str(prefix)), libraries
assert libraries["libtorch_cpu.so"].startswith(str(libtorch)), libraries

# That LIBTORCH_DIR would fail if it were looked at.
look = build_consumer("archive", "-DLIBTORCH_DIR=/none", "-DCMAKE_DISABLE_FIND_PACKAGE_HDF5=ON") / "look"
assert run(look, store) == """run consumer
snapshot 0001-00000001 at step 3, {"shard":17}
weight float32 of 1 slice: 0 0.25 0.5 0.75 1 1.25; sum 3.75
state weight: 24 bytes
0 places damaged
"""
libraries = needed(look)
assert libraries["libgradstore-archive.so.0.1"].startswith(str(prefix)), libraries
for library in libraries:
    assert not re.match(r"lib(torch|c10|hdf5|gradstore\.)", library), f"{look} loads {library}"

assert "0001-00000001" in run(prefix / "bin/grad-inspect", "ls", "--snapshots", store)

# What find_package() finds, and what it says when it does not.
with_libtorch = f"-DLIBTORCH_DIR={libtorch}"
both = find_package("REQUIRED", with_libtorch)
assert "there is gradstore::archive" in both and "there is gradstore::gradstore" in both
alone = find_package("REQUIRED", "-DLIBTORCH_DIR=/none")
assert "there is gradstore::archive" in alone and "there is gradstore::gradstore" not in alone
assert "gradstore without its component gradstore: LIBTORCH_DIR=/none has no lib/libtorch_cpu.so" in alone
assert "there is gradstore::gradstore" not in find_package("REQUIRED COMPONENTS archive", with_libtorch)
assert "LIBTORCH_DIR=/none has no" in find_package("REQUIRED COMPONENTS gradstore", "-DLIBTORCH_DIR=/none", status=1)
assert "found: 0" in find_package("QUIET COMPONENTS gradstore", "-DLIBTORCH_DIR=/none")
assert "no component python" in find_package("REQUIRED COMPONENTS python", with_libtorch, status=1)
assert "there is gradstore::archive" in find_package("0.1.0 REQUIRED COMPONENTS archive")
assert "version: 0.1.0" in find_package("0.2 REQUIRED COMPONENTS archive", status=1)
assert "version: 0.1.0" in find_package("0.0 REQUIRED COMPONENTS archive", status=1)

# A LibTorch of another version than the one it was built with.
other = scratch / "other_libtorch"
(other / "include/torch/headeronly").mkdir(parents=True)
(other / "lib").mkdir()
for library in ("libtorch_cpu.so", "libc10.so"):
    (other / "lib" / library).touch()
version = re.search(r"TORCH_VERSION_MAJOR (\d+)[^#]*#define TORCH_VERSION_MINOR (\d+)", next(
    header.read_text() for header in (libtorch / "include/torch/headeronly/version.h",
                                      libtorch / "include/torch/csrc/api/include/torch/version.h")
    if header.exists())).groups()
(other / "include/torch/headeronly/version.h").write_text(
    f"#define TORCH_VERSION_MAJOR {version[0]}\n#define TORCH_VERSION_MINOR {int(version[1]) + 1}\n")
refusal = find_package("REQUIRED COMPONENTS gradstore", f"-DLIBTORCH_DIR={other}", status=1)
assert f"is version {version[0]}.{int(version[1]) + 1}, but this gradstore was built with {version[0]}.{version[1]}" \
    in refusal, refusal
shutil.rmtree(scratch)
