# Policies that look ahead or read learned weights, against formulae in double.
foreach(name lookahead scorer)
  kvt_test(test_${name}_laws LABEL property MODULES replay SOURCES test_${name}_laws.c laws.c ${kvt_toys})
endforeach()
kvt_test(test_learned_runs LABEL property MODULES replay
  SOURCES test_learned_runs.c ../runs.c ../synth.c ../synth_probe.c ../synth_scorer.c)
