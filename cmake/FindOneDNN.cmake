# Finds oneDNN and gives the target DNNL::dnnl.
#
# The header and the library are looked for first: Debian's own package file of oneDNN insists on
# OpenCL's development files, which neither oneDNN's processor engine nor Pippin needs.
# Where they are in no usual place, oneDNN's package file (dnnl_DIR, CMAKE_PREFIX_PATH) is asked.

if(NOT TARGET DNNL::dnnl AND NOT dnnl_DIR)
  find_path(OneDNN_INCLUDE_DIR NAMES oneapi/dnnl/dnnl.hpp)
  find_library(OneDNN_LIBRARY NAMES dnnl)
  mark_as_advanced(OneDNN_INCLUDE_DIR OneDNN_LIBRARY)
  if(OneDNN_INCLUDE_DIR AND OneDNN_LIBRARY)
    add_library(DNNL::dnnl UNKNOWN IMPORTED)
    set_target_properties(DNNL::dnnl PROPERTIES
      IMPORTED_LOCATION "${OneDNN_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${OneDNN_INCLUDE_DIR}")
  endif()
endif()

if(NOT TARGET DNNL::dnnl)
  find_package(dnnl CONFIG QUIET)
endif()

if(TARGET DNNL::dnnl)
  set(OneDNN_TARGET DNNL::dnnl)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN
  REQUIRED_VARS OneDNN_TARGET
  REASON_FAILURE_MESSAGE "install oneDNN (Debian: libdnnl-dev) or set dnnl_DIR")
