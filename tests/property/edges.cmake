foreach(name check params)
  kvt_test(test_registry_${name} LABEL property MODULES replay SOURCES test_registry_${name}.c)
endforeach()
kvt_test(test_everything LABEL property MODULES replay TIMEOUT 600
  SOURCES test_everything.c hard_traces.c ../runs.c ../synth.c ../synth_probe.c ../synth_scorer.c)
