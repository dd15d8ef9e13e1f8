# What becomes of slots and channels beside eviction: turned keys, dropped channels, skipping.
kvt_test(test_pieces_rope LABEL unit MODULES replay SOURCES test_pieces_rope.c ../toy.c)
foreach(name channels reposition)
  kvt_test(test_${name} LABEL unit MODULES replay
    SOURCES test_${name}.c ../runs.c ../synth.c ../synth_probe.c ../synth_scorer.c)
endforeach()
add_dependencies(test_channels stage_plugin)
target_compile_definitions(test_channels PRIVATE STAGE_PLUGIN="$<TARGET_FILE:stage_plugin>")
