# libkvt (all but the browser and the command line), headers, program, samples, manual pages,
# completions, kvt.pc.
include(GNUInstallDirs)

set(KVT_LIBRARY_MODULES analyze live train capture replay traces compute base)

add_library(kvt_shared SHARED)
kvt_link(kvt_shared ${KVT_LIBRARY_MODULES})
set_target_properties(kvt_shared PROPERTIES OUTPUT_NAME kvt LINKER_LANGUAGE C
                                            VERSION ${PROJECT_VERSION} SOVERSION 0)
add_library(kvt_static STATIC)
kvt_link(kvt_static ${KVT_LIBRARY_MODULES})
set_target_properties(kvt_static PROPERTIES OUTPUT_NAME kvt LINKER_LANGUAGE C)

# What a program needs beside -lkvt when it links the archive. HDF5's files are named in full because
# Debian keeps them in a folder of their own.
set(KVT_PC_PRIVATE "${HDF5_C_HL_LIBRARIES};${HDF5_C_LIBRARIES};${CSV_LIBRARY};${CBLAS_LIBRARY}")
if(KVT_HAVE_CUDA)
  list(APPEND KVT_PC_PRIVATE ${CUDA_cudart_static_LIBRARY} -lrt)
endif()
list(REMOVE_DUPLICATES KVT_PC_PRIVATE)
list(JOIN KVT_PC_PRIVATE " " KVT_PC_PRIVATE)
configure_file(${PROJECT_SOURCE_DIR}/cmake/kvt.pc.in ${PROJECT_BINARY_DIR}/kvt.pc @ONLY)

install(TARGETS kvt kvt_shared kvt_static
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kvt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
# The public headers take their lists of datasets and needs from these.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/traces DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.def" PATTERN samples EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/traces/samples DESTINATION ${CMAKE_INSTALL_DATADIR}/kvt
        FILES_MATCHING PATTERN "*.h5" PATTERN "*.safetensors")
install(FILES ${PROJECT_BINARY_DIR}/kvt.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Manual pages: sources in docs/man are printed by `kvt help --man` (scripts/update-docs).
find_program(SCDOC scdoc)
if(SCDOC)
  file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.scd)
  set(built "")
  foreach(page IN LISTS pages)
    cmake_path(GET page STEM name)
    file(STRINGS ${page} first LIMIT_COUNT 1)
    string(REGEX REPLACE "^[^(]*\\(([0-9])\\).*" "\\1" section "${first}")
    set(out ${PROJECT_BINARY_DIR}/man/${name}.${section})
    add_custom_command(OUTPUT ${out}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
      COMMAND ${SCDOC} < ${page} > ${out}
      DEPENDS ${page} VERBATIM)
    list(APPEND built ${out})
    install(FILES ${out} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
  endforeach()
  add_custom_target(kvt_man ALL DEPENDS ${built})
else()
  message(STATUS "manual pages: scdoc was not found; they are not built")
endif()

# Completions are printed by the program itself.
set(completions ${PROJECT_BINARY_DIR}/completions)
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${completions}/kvt.${shell}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${completions}
    COMMAND kvt completion ${shell} > ${completions}/kvt.${shell}
    DEPENDS kvt VERBATIM)
endforeach()
add_custom_target(kvt_completions ALL
  DEPENDS ${completions}/kvt.bash ${completions}/kvt.zsh ${completions}/kvt.fish)
install(FILES ${completions}/kvt.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME kvt)
install(FILES ${completions}/kvt.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
        RENAME _kvt)
install(FILES ${completions}/kvt.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
