# Policies with a learned score, through the engine.
foreach(name scored decided)
  kvt_test(test_policies_${name} LABEL unit MODULES replay
    SOURCES test_policies_${name}.c scored_run.c)
endforeach()
