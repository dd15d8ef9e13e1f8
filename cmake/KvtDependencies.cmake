# Every library that kvt uses, as imported targets kvt_dep_NAME. A missing one is named together
# with the Debian package that has it.

find_package(PkgConfig REQUIRED)

function(kvt_dep_pkg name module package)
  pkg_check_modules(${name} IMPORTED_TARGET GLOBAL ${module})
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${module} was not found; on Debian: apt-get install ${package} "
                        "(scripts/setup installs everything)")
  endif()
  add_library(kvt_dep_${name} INTERFACE)
  target_link_libraries(kvt_dep_${name} INTERFACE PkgConfig::${name})
endfunction()

find_package(HDF5 1.10 COMPONENTS C HL)
if(NOT HDF5_FOUND)
  message(FATAL_ERROR "HDF5 was not found; on Debian: apt-get install libhdf5-dev")
endif()
add_library(kvt_dep_hdf5 INTERFACE)
target_include_directories(kvt_dep_hdf5 SYSTEM INTERFACE ${HDF5_INCLUDE_DIRS})
target_link_libraries(kvt_dep_hdf5 INTERFACE ${HDF5_C_HL_LIBRARIES} ${HDF5_C_LIBRARIES})

find_path(CSV_INCLUDE_DIR csv.h)
find_library(CSV_LIBRARY csv)
if(NOT CSV_INCLUDE_DIR OR NOT CSV_LIBRARY)
  message(FATAL_ERROR "libcsv was not found; on Debian: apt-get install libcsv-dev")
endif()
add_library(kvt_dep_csv INTERFACE)
target_include_directories(kvt_dep_csv SYSTEM INTERFACE ${CSV_INCLUDE_DIR})
target_link_libraries(kvt_dep_csv INTERFACE ${CSV_LIBRARY})

find_path(CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas)
find_library(CBLAS_LIBRARY NAMES openblas cblas)
if(NOT CBLAS_INCLUDE_DIR OR NOT CBLAS_LIBRARY)
  message(FATAL_ERROR "no CBLAS was found; on Debian: apt-get install libopenblas-dev")
endif()
add_library(kvt_dep_cblas INTERFACE)
target_include_directories(kvt_dep_cblas SYSTEM INTERFACE ${CBLAS_INCLUDE_DIR})
target_link_libraries(kvt_dep_cblas INTERFACE ${CBLAS_LIBRARY})

kvt_dep_pkg(pcre2 libpcre2-8 libpcre2-dev)
kvt_dep_pkg(jansson jansson libjansson-dev)
kvt_dep_pkg(utf8proc libutf8proc libutf8proc-dev)
kvt_dep_pkg(xxhash libxxhash libxxhash-dev)
kvt_dep_pkg(curses ncursesw libncurses-dev)
# Its flags set _XOPEN_SOURCE to another value than kvt_flags; wide characters come with ours, too.
set_property(TARGET PkgConfig::curses PROPERTY INTERFACE_COMPILE_OPTIONS "")
kvt_dep_pkg(smartcols smartcols libsmartcols-dev)

find_package(OpenMP REQUIRED COMPONENTS C)
find_package(Threads REQUIRED)
add_library(kvt_dep_openmp INTERFACE)
target_link_libraries(kvt_dep_openmp INTERFACE OpenMP::OpenMP_C)
add_library(kvt_dep_threads INTERFACE)
target_link_libraries(kvt_dep_threads INTERFACE Threads::Threads)

if(KVT_TESTS)
  kvt_dep_pkg(cmocka cmocka libcmocka-dev)
  kvt_dep_pkg(vterm vterm libvterm-dev)
endif()
