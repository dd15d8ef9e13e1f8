# kvt replay against replay_reference.py, a plain numpy program, on synthetic traces.
add_executable(make_synth ../synth_main.c ../synth.c ../synth_probe.c ../synth_scorer.c)
kvt_link(make_synth traces)
add_test(NAME test_replay_reference
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_replay_reference.sh $<TARGET_FILE:kvt>
                 $<TARGET_FILE:make_synth> ${PROJECT_SOURCE_DIR})
set_tests_properties(test_replay_reference PROPERTIES LABELS golden SKIP_RETURN_CODE 77 TIMEOUT 1800)

# The same on captured traces with probes, and scorers that kvt train made of them.
add_test(NAME test_replay_learned
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_replay_learned.sh $<TARGET_FILE:kvt> ${PROJECT_SOURCE_DIR}
                 $<TARGET_FILE:make_gguf>)
set_tests_properties(test_replay_learned PROPERTIES LABELS golden SKIP_RETURN_CODE 77 TIMEOUT 300)
