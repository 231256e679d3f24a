# What users run: optimised, for any CPU of the architecture.
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
