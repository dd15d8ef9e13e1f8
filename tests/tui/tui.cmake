# The browser: its state machine and screens need no terminal; term/ runs on an emulator and in tmux.
kvt_test(test_tui_model LABEL tui MODULES tui SOURCES test_model.c hand.c)
kvt_test(test_tui_session LABEL tui MODULES tui SOURCES test_session.c hand.c)
kvt_test(test_tui_screens LABEL tui MODULES tui SOURCES test_screens.c hand.c)
kvt_test(test_tui_term LABEL tui MODULES tui SOURCES test_term.c hand.c)
add_executable(make_trace make_trace.c ${PROJECT_SOURCE_DIR}/tests/synth.c)
kvt_link(make_trace traces)
kvt_test(test_tui_emulator LABEL tui MODULES base SOURCES test_emulator.c LIBRARIES vterm
         ARGS $<TARGET_FILE:kvt> $<TARGET_FILE:make_trace>)
foreach(name show tmux)
  add_test(NAME test_tui_${name}
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_${name}.sh $<TARGET_FILE:kvt> ${PROJECT_SOURCE_DIR}
                   $<TARGET_FILE:make_trace>)
  set_tests_properties(test_tui_${name} PROPERTIES LABELS tui SKIP_RETURN_CODE 77 TIMEOUT 300)
endforeach()
kvt_test(test_tui_speed LABEL tui MODULES tui SOURCES test_speed.c)
