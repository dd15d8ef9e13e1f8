# What the engine does around a policy: bases, decisions anew, allocators that learn.
replay_plugin(stage_plugin stage_plugin.c)
foreach(name engine_base engine_again)
  kvt_test(test_${name} LABEL unit MODULES replay SOURCES test_${name}.c ../runs.c ../synth.c)
  add_dependencies(test_${name} stage_plugin)
  target_compile_definitions(test_${name} PRIVATE STAGE_PLUGIN="$<TARGET_FILE:stage_plugin>")
endforeach()
kvt_test(test_engine_share LABEL unit MODULES replay SOURCES test_engine_share.c)
