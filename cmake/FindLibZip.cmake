# Finds libzip and gives the target libzip::zip.
#
# libzip's own package file is not asked: Debian's insists on the command-line tools, which are in
# other packages.

find_path(LibZip_INCLUDE_DIR NAMES zip.h)
find_library(LibZip_LIBRARY NAMES zip)
mark_as_advanced(LibZip_INCLUDE_DIR LibZip_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibZip
  REQUIRED_VARS LibZip_LIBRARY LibZip_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libzip (Debian: libzip-dev)")

if(LibZip_FOUND AND NOT TARGET libzip::zip)
  add_library(libzip::zip UNKNOWN IMPORTED)
  set_target_properties(libzip::zip PROPERTIES
    IMPORTED_LOCATION "${LibZip_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${LibZip_INCLUDE_DIR}")
endif()
