kvt_test(test_pieces_rows LABEL unit MODULES replay SOURCES test_pieces_rows.c ../toy.c)
kvt_test(test_policies_probe LABEL unit MODULES replay SOURCES test_policies_probe.c ../toy.c)
kvt_test(test_replay_kvzip LABEL unit MODULES replay
  SOURCES test_replay_kvzip.c ../runs.c ../synth.c ../synth_probe.c ../synth_scorer.c)
kvt_test(test_odd_probes LABEL unit MODULES replay
  SOURCES test_odd_probes.c ../runs.c ../synth.c ../synth_probe.c ../synth_scorer.c)
