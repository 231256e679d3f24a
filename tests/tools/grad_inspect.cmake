# Tests of grad-inspect. Included by tests/tools/CMakeLists.txt.
set(here ${CMAKE_CURRENT_LIST_DIR})

add_library(grad_inspect_sample STATIC ${here}/grad_inspect_sample.cpp)
target_include_directories(grad_inspect_sample PUBLIC ${here})
target_link_libraries(grad_inspect_sample PUBLIC gradstore_archive PRIVATE gradstore_hdf5 gradstore_warnings)

gradstore_test(grad_inspect
               SOURCES ${here}/grad_inspect_address_test.cpp ${here}/grad_inspect_glob_test.cpp
                       ${here}/grad_inspect_text_test.cpp ${here}/grad_inspect_element_test.cpp
                       ${here}/grad_inspect_table_test.cpp ${here}/grad_inspect_verify_test.cpp
               LIBRARIES grad_inspect_commands grad_inspect_sample)

add_executable(grad_inspect_make_store ${here}/grad_inspect_make_store.cpp)
target_link_libraries(grad_inspect_make_store PRIVATE grad_inspect_sample gradstore_warnings)

add_test(NAME tools.GradInspectTest
         COMMAND ${GRADSTORE_PYTHON} -B ${here}/grad_inspect_test.py $<TARGET_FILE:grad-inspect>
                 $<TARGET_FILE:grad_inspect_make_store>)
set_tests_properties(tools.GradInspectTest PROPERTIES TIMEOUT 300 LABELS tools)
