# kvt_flags: the warnings and language rules of every file of ours.
add_library(kvt_flags INTERFACE)
target_compile_options(kvt_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
  -Wformat=2 -Werror=format-security -ffp-contract=off -fno-math-errno -fno-trapping-math>)
target_compile_definitions(kvt_flags INTERFACE _POSIX_C_SOURCE=200809L _XOPEN_SOURCE=700)
if(KVT_WERROR)
  target_compile_options(kvt_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()
if(KVT_SANITIZE)
  target_compile_options(kvt_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-fsanitize=${KVT_SANITIZE}
                                             -fno-omit-frame-pointer>)
  target_link_options(kvt_flags INTERFACE -fsanitize=${KVT_SANITIZE})
endif()

# kvt_module(replay DEPENDS base compute traces LIBRARIES openmp SOURCES ...): a folder is an object
# library that sees include/ and the root. DEPENDS are ours, LIBRARIES are foreign (kvt_dep_NAME).
function(kvt_module name)
  cmake_parse_arguments(M "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(kvt_${name} OBJECT ${M_SOURCES})
  target_include_directories(kvt_${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
                                                 ${PROJECT_BINARY_DIR}/generated)
  list(TRANSFORM M_LIBRARIES PREPEND kvt_dep_)
  target_link_libraries(kvt_${name} PRIVATE kvt_flags ${M_LIBRARIES})
  set_target_properties(kvt_${name} PROPERTIES KVT_DEPENDS "${M_DEPENDS}"
                                               KVT_LIBRARIES "${M_LIBRARIES}")
endfunction()

# The objects of the named modules and of all that they depend on, once each, into `target`. Modules in
# KVT_LINK_WITHOUT are left out: a test has its own in their place.
function(kvt_link target)
  set(todo ${ARGN})
  set(done ${KVT_LINK_WITHOUT})
  while(todo)
    list(POP_FRONT todo module)
    if(NOT module IN_LIST done)
      list(APPEND done ${module})
      get_target_property(depends kvt_${module} KVT_DEPENDS)
      get_target_property(libraries kvt_${module} KVT_LIBRARIES)
      list(APPEND todo ${depends})
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:kvt_${module}>)
      target_link_libraries(${target} PRIVATE ${libraries})
    endif()
  endwhile()
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
                                               ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${target} PRIVATE kvt_flags m)
  # Kernels that nvcc compiled need neither its linker nor the C++ library.
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
endfunction()

# kvt_test(test_size LABEL unit MODULES base SOURCES test_size.c [LIBRARIES vterm] [ARGS ...]):
# a cmocka program that ctest runs from the source folder's tests/.
function(kvt_test name)
  cmake_parse_arguments(T "" "LABEL;TIMEOUT" "SOURCES;MODULES;LIBRARIES;ARGS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  kvt_link(${name} ${T_MODULES})
  list(TRANSFORM T_LIBRARIES PREPEND kvt_dep_)
  target_link_libraries(${name} PRIVATE kvt_dep_cmocka ${T_LIBRARIES})
  target_compile_definitions(${name} PRIVATE KVT_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             KVT_BINARY_DIR="${PROJECT_BINARY_DIR}")
  add_test(NAME ${name} COMMAND ${name} ${T_ARGS})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABEL}" TIMEOUT ${T_TIMEOUT}
                                          SKIP_RETURN_CODE 77)
endfunction()
