function(replay_plugin name source)
  add_library(${name} MODULE ${source})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PRIVATE kvt_flags)
  set_target_properties(${name} PROPERTIES PREFIX "")
endfunction()
replay_plugin(replay_plugin replay_plugin.c)
replay_plugin(replay_plugin_old replay_plugin.c)
target_compile_definitions(replay_plugin_old PRIVATE REPLAY_PLUGIN_ABI=99)

kvt_test(test_budget LABEL unit MODULES replay SOURCES test_budget.c)
kvt_test(test_use LABEL unit MODULES replay SOURCES test_use.c)
kvt_test(test_replay LABEL unit MODULES replay
  SOURCES test_replay.c ../plain.c ../runs.c ../synth.c)
kvt_test(test_replay_cases LABEL unit MODULES replay
  SOURCES test_replay_cases.c ../runs.c ../synth.c)
foreach(name test_use test_replay test_replay_cases)
  add_dependencies(${name} replay_plugin replay_plugin_old)
  target_compile_definitions(${name} PRIVATE
    REPLAY_PLUGIN="$<TARGET_FILE:replay_plugin>" REPLAY_PLUGIN_OLD="$<TARGET_FILE:replay_plugin_old>")
endforeach()
kvt_test(test_slots LABEL unit MODULES compute SOURCES test_slots.c)
