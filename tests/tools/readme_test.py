"""README quotes what is compiled and tested, and names only what exists: readme_test.py SOURCE_FOLDER"""
import pathlib
import re
import sys
import textwrap

source = pathlib.Path(sys.argv[1])
readme = (source / "README.md").read_text()

loop = (source / "tools/train_demo/training_loop.cpp").read_text()
parts = re.findall(r"// \[readme-begin\]\n(.*?)  // \[readme-end\]", loop, re.S)
assert len(parts) == 2, len(parts)
quoted = re.search(r"```cpp\n(.*?)```", readme, re.S).group(1)
assert quoted == textwrap.dedent("".join(parts)), "README's example is not the one in training_loop.cpp"

quoted = re.findall(r"```cmake\n(.*?)```", readme, re.S)
for consumer in ("gradstore", "archive"):
    tested = (source / f"tests/tools/consumer/{consumer}/CMakeLists.txt").read_text()
    part = re.search(r"# \[readme-begin\]\n(.*?)# \[readme-end\]", tested, re.S).group(1)
    assert part in quoted, f"README does not quote the CMake lines of the tested consumer {consumer}"
    quoted.remove(part)
assert not quoted, f"README has CMake lines that no test builds: {quoted}"

for path in re.findall(r"`((?:tools|src|include|tests|schemas)/[\w./-]*)`?", readme):
    assert (source / path).exists(), f"README names {path}, which does not exist"
for script in re.findall(r"^(tools/\w+)", readme, re.M):
    assert (source / script).exists(), f"README names {script}, which does not exist"
print("README and the sources agree")
