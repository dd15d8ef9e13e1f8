# Policies with a learned score, through the engine.
foreach(name scored decided)
  kvt_test(test_policies_${name} LABEL unit MODULES replay
    SOURCES test_policies_${name}.c scored_run.c)
endforeach()
kvt_test(test_replay_decided LABEL unit MODULES replay
  SOURCES test_replay_decided.c ../runs.c ../synth.c ../synth_probe.c ../synth_scorer.c)
