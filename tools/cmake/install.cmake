# What users install: two shared libraries made of the layers, the public headers, grad-inspect, and a
# package for find_package(gradstore). The prefix may be moved afterwards.
#
# Shared libraries, because only they keep RocksDB, spdlog and libhdf5 to themselves: a program that
# links them needs none of their packages to be built.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gradstore)

# gradstore_library(<component> OUTPUT <name> LAYERS <layer>... HEADERS <header>...)
# makes target gradstore_<component>_library, which is gradstore::<component> where it is installed.
function(gradstore_library component)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT" "LAYERS;HEADERS")
  set(library gradstore_${component}_library)
  list(TRANSFORM arg_LAYERS REPLACE "(.+)" "$<TARGET_OBJECTS:gradstore_\\1>")
  list(TRANSFORM arg_HEADERS REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/include/gradstore/\\1.h")
  add_library(${library} SHARED ${arg_LAYERS})
  target_sources(${library} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${arg_HEADERS})
  target_compile_features(${library} INTERFACE cxx_std_20)
  # DT_RPATH and not DT_RUNPATH: only so does the loader also search the program's own path, which
  # knows where LibTorch is, for what our library needs.
  target_link_options(${library} PRIVATE LINKER:--no-undefined LINKER:--disable-new-dtags)
  set_target_properties(${library} PROPERTIES
    EXPORT_NAME ${component}
    OUTPUT_NAME ${arg_OUTPUT}
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH $ORIGIN
    VERIFY_INTERFACE_HEADER_SETS ON)
  install(TARGETS ${library} EXPORT gradstore-${component} FILE_SET HEADERS)
  install(EXPORT gradstore-${component} NAMESPACE gradstore:: DESTINATION ${package_dir})
endfunction()

gradstore_library(archive OUTPUT gradstore-archive
                  LAYERS core kernels io index archive
                  HEADERS dtype error snapshot store_reader termination_notice)
target_link_libraries(gradstore_archive_library
                      PRIVATE PkgConfig::xxhash PkgConfig::hwy spdlog::spdlog RocksDB::rocksdb-shared
                              Threads::Threads)

gradstore_library(gradstore OUTPUT gradstore LAYERS hdf5 torch HEADERS gradient_store snapshot_store)
# LibTorch's files and not its target, which would write the place of this one into the library.
target_link_libraries(gradstore_gradstore_library
                      PUBLIC gradstore_archive_library
                      INTERFACE libtorch::torch_cpu
                      PRIVATE ${HDF5_C_LIBRARIES} $<TARGET_FILE:libtorch::torch_cpu> $<TARGET_FILE:libtorch::c10>)

install(TARGETS grad-inspect)
install(FILES LICENSE schemas/FORMAT.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

configure_file(tools/cmake/gradstore-config.cmake.in gradstore-config.cmake @ONLY)
write_basic_package_version_file(gradstore-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gradstore-config.cmake ${PROJECT_BINARY_DIR}/gradstore-config-version.cmake
              tools/cmake/libtorch.cmake
        DESTINATION ${package_dir})

# Each public header is compiled alone, by whoever builds everything.
add_custom_target(gradstore_headers ALL)
add_dependencies(gradstore_headers all_verify_interface_header_sets)
