# Probes, weights, thresholds, joins and fair budgets, by policies of a plug-in.
replay_plugin(look_plugin look_plugin.c)
foreach(name replay_probe threshold join fair)
  kvt_test(test_${name} LABEL unit MODULES replay
    SOURCES test_${name}.c ../runs.c ../synth.c ../synth_probe.c ../synth_scorer.c)
  add_dependencies(test_${name} look_plugin)
  target_compile_definitions(test_${name} PRIVATE LOOK_PLUGIN="$<TARGET_FILE:look_plugin>")
endforeach()
