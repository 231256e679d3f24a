# Fails on an include that points the wrong way between layers, naming each.
#
#   cmake [-DROOT=<checkout>] -P tests/layering.cmake

cmake_minimum_required(VERSION 3.25)

if(NOT DEFINED ROOT)
  get_filename_component(ROOT ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
endif()

# A layer may include its own headers and those of the layers before it.
set(layers core kernels io index archive analysis hdf5 torch)
# The public headers that belong to the torch layer; the others are core's.
set(torch_headers "^gradstore/(gradient_store|snapshot_store)\\.h$")

set(hdf5_library "^(hdf5|hdf5_hl|H5[A-Za-z0-9]*)\\.h$")
set(rocksdb_library "^rocksdb/")
set(spdlog_library "^spdlog/")
set(torch_library "^(ATen|c10|caffe2|torch)/")
set(posix "^((fcntl|unistd|dirent|poll)\\.h|(sys|linux)/.*)$")
set(standard "^[a-z_]+$")  # <vector>: no folder, no ".h".

set(num_files 0)
set(faults "")

# Notes that file may not include what it includes, and why.
macro(forbid reason)
  string(APPEND faults "  ${file} includes ${included}: ${reason}\n")
endmacro()

# Where a library or a system interface may be seen.
function(check_library file included)
  if(included MATCHES ${hdf5_library} AND NOT file MATCHES "^(src|tests)/hdf5/")
    forbid("libhdf5 is seen by src/hdf5 alone")
  elseif(included MATCHES ${rocksdb_library} AND NOT file MATCHES "^(src|tests)/index/")
    forbid("RocksDB is seen by src/index alone")
  elseif(included MATCHES ${spdlog_library} AND NOT file MATCHES "^(src/core/log\\.cpp$|tools/|tests/)")
    forbid("spdlog is seen by src/core/log.cpp and programs alone")
  elseif(included MATCHES ${posix} AND NOT file MATCHES "^(src/io|tools|tests)/")
    forbid("POSIX is seen by src/io and programs alone")
  elseif((included MATCHES ${torch_library} OR included MATCHES ${torch_headers})
         AND NOT file MATCHES "^(include/gradstore|src/torch|tools|tests/torch|tests/tools)/")
    forbid("LibTorch is seen by src/torch and programs alone")
  endif()
  set(faults "${faults}" PARENT_SCOPE)
endfunction()

# What a file of src/<layer> may include from the other layers.
function(check_layer file included)
  string(REGEX REPLACE "^src/([^/]+)/.*" "\\1" layer ${file})
  list(FIND layers "${layer}" place)
  if(place EQUAL -1)
    forbid("src/${layer} is no layer that tests/layering.cmake knows")
  elseif(included MATCHES "^([^/]+)/" AND CMAKE_MATCH_1 IN_LIST layers)
    list(FIND layers "${CMAKE_MATCH_1}" included_place)
    if(included_place GREATER place)
      forbid("${layer} comes before ${CMAKE_MATCH_1}")
    endif()
  elseif(quoted AND NOT included MATCHES "^(gradstore|schemas)/")
    forbid("a header of ours is named by its layer")
  endif()
  set(faults "${faults}" PARENT_SCOPE)
endfunction()

# What a public header may include: the standard library, other public headers, and little of LibTorch.
function(check_public_header file included)
  string(REGEX REPLACE "^include/" "" name ${file})
  if(name MATCHES ${torch_headers})
    set(allowed "^(gradstore/|ATen/core/|c10/core/(Device|DeviceType|ScalarType)\\.h$)")
  else()
    set(allowed "^gradstore/")
  endif()
  if(NOT included MATCHES ${standard} AND (NOT included MATCHES ${allowed}
                                           OR (included MATCHES ${torch_headers} AND NOT name MATCHES ${torch_headers})))
    forbid("a public header includes the standard library and public headers alone")
  endif()
  set(faults "${faults}" PARENT_SCOPE)
endfunction()

# grad-inspect starts in milliseconds because it links neither LibTorch nor libhdf5.
function(check_inspect file included)
  if(included MATCHES "^(torch|hdf5)/")
    forbid("grad-inspect uses archive, analysis and what they use")
  elseif(included MATCHES ${torch_library} OR included MATCHES ${torch_headers})
    forbid("grad-inspect does not link LibTorch")
  endif()
  set(faults "${faults}" PARENT_SCOPE)
endfunction()

foreach(folder include src tools tests)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${folder}/*.h ${ROOT}/${folder}/*.cpp)
  foreach(file IN LISTS files)
    math(EXPR num_files "${num_files} + 1")
    file(READ ${ROOT}/${file} text)
    string(REGEX MATCHALL "(^|\n)[ \t]*#[ \t]*include[ \t]*[<\"][^<>\"\n]+[>\"]" lines "${text}")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE ".*([<\"])([^<>\"]+)[>\"]$" "\\2" included "${line}")
      string(REGEX MATCH "\"$" quoted "${line}")
      if(included MATCHES "(^|/)\\.\\.?/")
        forbid("a relative path hides the layer")
      endif()
      check_library(${file} ${included})
      if(folder STREQUAL "src")
        check_layer(${file} ${included})
      elseif(folder STREQUAL "include")
        check_public_header(${file} ${included})
      elseif(file MATCHES "^tools/grad[-_]inspect")
        check_inspect(${file} ${included})
      endif()
    endforeach()
  endforeach()
endforeach()

if(num_files EQUAL 0)
  message(FATAL_ERROR "No source file under ROOT=${ROOT}.")
elseif(faults)
  message(FATAL_ERROR "Includes that point the wrong way:\n${faults}")
endif()
message(STATUS "${num_files} files, no include points the wrong way")
