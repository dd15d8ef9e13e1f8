# What becomes of slots and channels beside eviction: turned keys, dropped channels, skipping.
kvt_test(test_pieces_rope LABEL unit MODULES replay SOURCES test_pieces_rope.c ../toy.c)
kvt_test(test_channels LABEL unit MODULES replay
  SOURCES test_channels.c ../runs.c ../synth.c ../synth_probe.c ../synth_scorer.c)
