# Imported targets for LibTorch, without find_package(Torch): the PyPI wheel's config turns on the
# CUDA language and fails where there is no toolkit. libtorch_cuda is loaded at run time if it is there.
#
# Used by our build and, installed, by gradstore's package.

set(LIBTORCH_DIR "" CACHE PATH "Folder of LibTorch with include/ and lib/; default: torch of the active Python")

# gradstore_find_libtorch(<python> [<major.minor>]): looks in LIBTORCH_DIR, else in torch of that
# Python. Sets libtorch_version and makes the target libtorch::torch_cpu, or says in libtorch_defect
# why it cannot be used. With a version, no other one will do.
function(gradstore_find_libtorch python)
  set(needed "${ARGV1}")
  set(libtorch_version "" PARENT_SCOPE)
  set(libtorch_defect "" PARENT_SCOPE)
  if(LIBTORCH_DIR)
    set(dir ${LIBTORCH_DIR})
  else()
    execute_process(
      COMMAND ${python} -c
              "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT dir)
      set(libtorch_defect "LibTorch was not found: give -DLIBTORCH_DIR=<folder with include/ and lib/>, \
or activate a Python that has torch" PARENT_SCOPE)
      return()
    endif()
  endif()

  foreach(library libtorch_cpu.so libc10.so)
    if(NOT EXISTS ${dir}/lib/${library})
      set(libtorch_defect "LIBTORCH_DIR=${dir} has no lib/${library}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(version_lines "")
  foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)  # Older ones lack the first.
    if(NOT version_lines AND EXISTS ${dir}/include/${header})
      file(STRINGS ${dir}/include/${header} version_lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR) ")
    endif()
  endforeach()
  if(NOT version_lines)
    set(libtorch_defect "The headers of LibTorch in ${dir} do not say which version it is" PARENT_SCOPE)
    return()
  endif()
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" version "${version_lines}")
  if(version VERSION_LESS 2.7)
    set(libtorch_defect "LibTorch ${version} in ${dir} is too old: 2.7 or newer is needed (older wheels \
have the pre-C++11 ABI)" PARENT_SCOPE)
    return()
  endif()
  if(needed AND NOT version VERSION_EQUAL needed)
    set(libtorch_defect "LibTorch in ${dir} is version ${version}, but this gradstore was built with \
${needed}: give -DLIBTORCH_DIR=<folder of LibTorch ${needed}>, or build gradstore with ${version}" PARENT_SCOPE)
    return()
  endif()
  # The C++11 ABI shows in the mangled name of any exported function that takes a std::string.
  file(STRINGS ${dir}/lib/libc10.so abi REGEX "_ZN3c105ErrorC[12].*cxx11" LIMIT_COUNT 1)
  if(NOT abi)
    set(libtorch_defect "LibTorch in ${dir} was built with the pre-C++11 ABI; use a build with the C++11 ABI"
        PARENT_SCOPE)
    return()
  endif()

  set(LIBTORCH_DIR ${dir} CACHE PATH "" FORCE)
  set(libtorch_version ${version} PARENT_SCOPE)
  if(TARGET libtorch::torch_cpu)
    return()
  endif()
  message(STATUS "LibTorch ${version}: ${dir}")
  foreach(library c10 torch_cpu)
    add_library(libtorch::${library} SHARED IMPORTED)
    set_target_properties(libtorch::${library} PROPERTIES
      IMPORTED_LOCATION ${dir}/lib/lib${library}.so
      INTERFACE_INCLUDE_DIRECTORIES "${dir}/include;${dir}/include/torch/csrc/api/include"
      INTERFACE_COMPILE_DEFINITIONS _GLIBCXX_USE_CXX11_ABI=1)
  endforeach()
  # The CUDA wheel's libtorch_cpu needs libraries that lie beside it in site-packages/nvidia.
  file(GLOB nvidia_dirs ${dir}/../nvidia/*/lib)
  target_link_options(libtorch::torch_cpu INTERFACE "LINKER:--disable-new-dtags")
  foreach(library_dir ${dir}/lib ${nvidia_dirs})
    target_link_options(libtorch::torch_cpu INTERFACE "LINKER:-rpath,${library_dir}"
                                                      "LINKER:-rpath-link,${library_dir}")
  endforeach()
  target_link_libraries(libtorch::torch_cpu INTERFACE libtorch::c10)
endfunction()
