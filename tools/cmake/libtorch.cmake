# Imported targets for LibTorch, without find_package(Torch): the PyPI wheel's config turns on the
# CUDA language and fails where there is no toolkit. libtorch_cuda is loaded at run time if it is there.
#
# Looks in LIBTORCH_DIR (a folder with include/ and lib/), else in torch of the active Python.

set(LIBTORCH_DIR "" CACHE PATH "Folder of LibTorch with include/ and lib/; default: torch of the active Python")

find_program(GRADSTORE_PYTHON NAMES python3 HINTS ${PROJECT_SOURCE_DIR}/.venv/bin)  # tests use it as well
if(NOT LIBTORCH_DIR)
  execute_process(
    COMMAND ${GRADSTORE_PYTHON} -c
            "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE libtorch_found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT libtorch_found)
    message(FATAL_ERROR "LibTorch was not found. Run tools/setup, or give -DLIBTORCH_DIR=<folder with include/ and lib/>.")
  endif()
  set(LIBTORCH_DIR ${libtorch_found} CACHE PATH "" FORCE)
endif()

if(NOT EXISTS ${LIBTORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "LIBTORCH_DIR=${LIBTORCH_DIR} has no lib/libtorch_cpu.so.")
endif()
set(libtorch_version_lines "")
foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)  # Older ones lack the first.
  if(NOT libtorch_version_lines AND EXISTS ${LIBTORCH_DIR}/include/${header})
    file(STRINGS ${LIBTORCH_DIR}/include/${header} libtorch_version_lines
         REGEX "#define TORCH_VERSION_(MAJOR|MINOR) ")
  endif()
endforeach()
if(NOT libtorch_version_lines)
  message(FATAL_ERROR "The headers of LibTorch in ${LIBTORCH_DIR} do not say which version it is.")
endif()
string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" libtorch_version "${libtorch_version_lines}")
if(libtorch_version VERSION_LESS 2.7)
  message(FATAL_ERROR "LibTorch ${libtorch_version} in ${LIBTORCH_DIR} is too old: 2.7 or newer is needed "
                      "(older wheels have the pre-C++11 ABI).")
endif()
# The C++11 ABI shows in the mangled name of any exported function that takes a std::string.
file(STRINGS ${LIBTORCH_DIR}/lib/libc10.so libtorch_abi REGEX "_ZN3c105ErrorC[12].*cxx11" LIMIT_COUNT 1)
if(NOT libtorch_abi)
  message(FATAL_ERROR "LibTorch in ${LIBTORCH_DIR} was built with the pre-C++11 ABI; use a build with the C++11 ABI.")
endif()
message(STATUS "LibTorch ${libtorch_version}: ${LIBTORCH_DIR}")

# The CUDA wheel's libtorch_cpu needs libraries that lie beside it in site-packages/nvidia.
file(GLOB libtorch_nvidia_dirs ${LIBTORCH_DIR}/../nvidia/*/lib)

foreach(library c10 torch_cpu torch)
  add_library(libtorch::${library} SHARED IMPORTED)
  set_target_properties(libtorch::${library} PROPERTIES
    IMPORTED_LOCATION ${LIBTORCH_DIR}/lib/lib${library}.so
    INTERFACE_INCLUDE_DIRECTORIES "${LIBTORCH_DIR}/include;${LIBTORCH_DIR}/include/torch/csrc/api/include"
    INTERFACE_COMPILE_DEFINITIONS _GLIBCXX_USE_CXX11_ABI=1)
endforeach()
target_link_options(libtorch::torch_cpu INTERFACE "LINKER:--disable-new-dtags")
foreach(dir ${LIBTORCH_DIR}/lib ${libtorch_nvidia_dirs})
  target_link_options(libtorch::torch_cpu INTERFACE "LINKER:-rpath,${dir}" "LINKER:-rpath-link,${dir}")
endforeach()
target_link_libraries(libtorch::torch_cpu INTERFACE libtorch::c10)
