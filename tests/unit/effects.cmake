# What becomes of slots and channels beside eviction: turned keys, dropped channels, skipping.
kvt_test(test_pieces_rope LABEL unit MODULES replay SOURCES test_pieces_rope.c ../toy.c)
foreach(name channels reposition)
  kvt_test(test_${name} LABEL unit MODULES replay
    SOURCES test_${name}.c ../runs.c ../synth.c ../synth_probe.c ../synth_scorer.c)
endforeach()
