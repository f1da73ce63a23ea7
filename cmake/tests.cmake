# Tests: each folder tests/<area>/ gives one GoogleTest program test_<area> from its *.cpp files and
# one test from each test_*.sh script. tests/common/ is linked into every program.
#
# The list of them goes to <build>/tests/list.txt, which tools/run_tests.sh reads; ctest knows them too.
# All get PIPPIN_SOURCE_DIR and PIPPIN_BUILD_DIR in their environment.

set(tests_dir "${PROJECT_SOURCE_DIR}/tests")
set(test_environment
  "PIPPIN_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
  "PIPPIN_BUILD_DIR=${PROJECT_BINARY_DIR}")
if(PIPPIN_SANITIZE MATCHES "undefined")
  list(APPEND test_environment "UBSAN_OPTIONS=print_stacktrace=1")
elseif(PIPPIN_SANITIZE MATCHES "thread")
  # oneDNN has OpenMP of its own, which the thread sanitizer cannot see into.
  list(APPEND test_environment "OMP_NUM_THREADS=1")
endif()
set(test_list "")
foreach(variable IN LISTS test_environment)
  string(APPEND test_list "env ${variable}\n")
endforeach()

file(GLOB common_sources CONFIGURE_DEPENDS "${tests_dir}/common/*.cpp")
file(GLOB area_files CONFIGURE_DEPENDS "${tests_dir}/*/*.cpp" "${tests_dir}/*/test_*.sh")
set(areas)
foreach(file IN LISTS area_files)
  cmake_path(GET file PARENT_PATH folder)
  cmake_path(GET folder FILENAME area)
  if(NOT area MATCHES "^(common|fixtures)$" AND area MATCHES "${PIPPIN_TEST_AREAS}")
    list(APPEND areas ${area})
  endif()
endforeach()
list(REMOVE_DUPLICATES areas)

add_library(pippin_test_options INTERFACE)
target_include_directories(pippin_test_options INTERFACE "${PROJECT_SOURCE_DIR}/src" "${tests_dir}")
target_compile_definitions(pippin_test_options INTERFACE
  PIPPIN_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
  PIPPIN_BUILD_DIR="${PROJECT_BINARY_DIR}"
  PIPPIN_FIXTURES="${tests_dir}/fixtures")
target_link_libraries(pippin_test_options INTERFACE
  pippin::pippin pippin_options GTest::gtest fmt::fmt nlohmann_json::nlohmann_json hwy::hwy
  DNNL::dnnl JPEG::JPEG PNG::PNG ZLIB::ZLIB libzip::zip Threads::Threads)

if(areas)
  find_package(GTest REQUIRED)
  # An object library, so that set-up code which nothing refers to is linked too.
  if(common_sources)
    add_library(pippin_test_common OBJECT ${common_sources})
    target_link_libraries(pippin_test_common PUBLIC pippin_test_options GTest::gtest_main)
    if(PIPPIN_PCH)
      target_precompile_headers(pippin_test_common PRIVATE
        <gtest/gtest.h> <fmt/format.h> "${PROJECT_SOURCE_DIR}/include/pippin/pippin.h")
    endif()
  endif()
endif()

foreach(area IN LISTS areas)
  set(sources ${area_files})
  list(FILTER sources INCLUDE REGEX "^${tests_dir}/${area}/[^/]*\\.cpp$")
  set(scripts ${area_files})
  list(FILTER scripts INCLUDE REGEX "^${tests_dir}/${area}/test_[^/]*\\.sh$")

  if(sources)
    add_executable(test_${area} ${sources})
    target_link_libraries(test_${area} PRIVATE pippin_test_options GTest::gtest_main)
    if(common_sources)
      target_link_libraries(test_${area} PRIVATE pippin_test_common)
      if(PIPPIN_PCH)
        target_precompile_headers(test_${area} REUSE_FROM pippin_test_common)
      endif()
    endif()
    set_target_properties(test_${area} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    add_test(NAME test_${area} COMMAND test_${area})
    set_tests_properties(test_${area} PROPERTIES LABELS ${area} ENVIRONMENT "${test_environment}" TIMEOUT 900)
    string(APPEND test_list "gtest ${area} ${PROJECT_BINARY_DIR}/tests/test_${area}\n")
  endif()

  # A program built from an installed sanitized library would need the sanitizer as well.
  if(area STREQUAL "install" AND PIPPIN_SANITIZE)
    set(scripts)
  endif()
  foreach(script IN LISTS scripts)
    cmake_path(GET script STEM name)
    string(REGEX REPLACE "^test_" "" name "${name}")
    set(name "${area}/${name}")
    add_test(NAME ${name} COMMAND bash "${script}")
    set_tests_properties(${name} PROPERTIES
      LABELS ${area} ENVIRONMENT "${test_environment}" TIMEOUT 900 SKIP_RETURN_CODE 77)
    string(APPEND test_list "script ${name} ${script}\n")
  endforeach()
endforeach()

file(WRITE "${PROJECT_BINARY_DIR}/tests/list.txt" "${test_list}")

# Its dialect test compiles what no device here may be able to run.
if(TARGET test_gpu AND PIPPIN_USES_VULKAN)
  target_compile_definitions(test_gpu PRIVATE PIPPIN_HAS_VULKAN)
  # Tests misuse Vulkan on purpose.
  target_include_directories(test_gpu SYSTEM PRIVATE
    "${PIPPIN_VOLK_INCLUDE_DIR}" "${PIPPIN_VULKAN_INCLUDE_DIR}")
endif()
