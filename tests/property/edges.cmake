foreach(name check params words)
  kvt_test(test_registry_${name} LABEL property MODULES replay SOURCES test_registry_${name}.c)
endforeach()
foreach(name everything hostile_scorers)
  kvt_test(test_${name} LABEL property MODULES replay TIMEOUT 600
    SOURCES test_${name}.c hard_traces.c ../runs.c ../synth.c ../synth_probe.c ../synth_scorer.c)
endforeach()
