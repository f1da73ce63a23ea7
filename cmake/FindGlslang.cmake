# Glslang::Glslang: the compiler from GLSL to SPIR-V. Its own package file wants every program of the
# project installed, so the libraries are looked for by name; newer versions have fewer of them.

find_path(Glslang_INCLUDE_DIR glslang/Public/ShaderLang.h)
set(Glslang_LIBRARIES)
foreach(name IN ITEMS SPIRV glslang MachineIndependent GenericCodeGen OGLCompiler OSDependent
                      glslang-default-resource-limits SPIRV-Tools-opt SPIRV-Tools)
  find_library(Glslang_${name}_LIBRARY NAMES ${name})
  mark_as_advanced(Glslang_${name}_LIBRARY)
  if(Glslang_${name}_LIBRARY)
    list(APPEND Glslang_LIBRARIES "${Glslang_${name}_LIBRARY}")
  endif()
endforeach()
mark_as_advanced(Glslang_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Glslang
  REQUIRED_VARS Glslang_glslang_LIBRARY Glslang_SPIRV_LIBRARY Glslang_INCLUDE_DIR)

if(Glslang_FOUND AND NOT TARGET Glslang::Glslang)
  find_package(Threads REQUIRED)
  add_library(Glslang::Glslang INTERFACE IMPORTED)
  set_target_properties(Glslang::Glslang PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${Glslang_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${Glslang_LIBRARIES};Threads::Threads;${CMAKE_DL_LIBS}")
endif()
