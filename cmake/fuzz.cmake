# Fuzzing: each fuzz/<name>.cpp gives a libFuzzer program fuzz_<name>, linked with the parsers alone,
# so that this builds in seconds. Needs clang.

if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "PIPPIN_FUZZ needs clang: cmake --preset fuzz")
endif()

set(fuzz_sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
find_package(yaml-cpp REQUIRED)
file(GLOB parser_sources CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/src/data/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/io/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/text/*.cpp")
# These make tensors, for which the whole library would be needed.
list(FILTER parser_sources EXCLUDE REGEX
  "/(loader|tensor_dataset|load|safetensors|sharded|torch|weights|batch)\\.cpp$")
add_library(pippin_parsers STATIC ${parser_sources}
  "${PROJECT_SOURCE_DIR}/models/bert_config.cpp" "${PROJECT_SOURCE_DIR}/src/graph/dtype.cpp"
  "${PROJECT_SOURCE_DIR}/cli/config_file.cpp"
  "${PROJECT_SOURCE_DIR}/src/graph/shape.cpp")
target_include_directories(pippin_parsers PUBLIC
  "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/cli")
target_compile_options(pippin_parsers PUBLIC
  -Wall -Wextra ${fuzz_sanitizers} -fsanitize=fuzzer-no-link)
target_link_libraries(pippin_parsers PUBLIC
  fmt::fmt nlohmann_json::nlohmann_json JPEG::JPEG PNG::PNG ZLIB::ZLIB libzip::zip
  utf8proc::utf8proc yaml-cpp Threads::Threads)

file(GLOB fuzz_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/fuzz/*.cpp")
foreach(source IN LISTS fuzz_sources)
  cmake_path(GET source STEM name)
  add_executable(fuzz_${name} ${source})
  target_link_libraries(fuzz_${name} PRIVATE pippin_parsers)
  target_link_options(fuzz_${name} PRIVATE ${fuzz_sanitizers} -fsanitize=fuzzer)
  set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
endforeach()
