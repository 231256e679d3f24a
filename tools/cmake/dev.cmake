# For working on the code: quick to debug, and strict.
set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g -D_GLIBCXX_ASSERTIONS" CACHE STRING "")
set(GRADSTORE_WERROR ON CACHE BOOL "")
