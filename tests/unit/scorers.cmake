# Tests of what scorers are trained with.
kvt_test(test_running LABEL unit MODULES base SOURCES test_running.c)
kvt_test(test_scorer_math LABEL unit MODULES train SOURCES test_scorer_math.c)
kvt_test(test_ridge LABEL unit MODULES train SOURCES test_ridge.c)
kvt_test(test_targets LABEL unit MODULES train SOURCES test_targets.c ../synth.c)
kvt_test(test_train_stop LABEL unit MODULES train
  SOURCES test_train_stop.c ../synth.c ../synth_probe.c ../gguf_make.c ../model_make.c)
kvt_test(test_train_arch LABEL unit MODULES train
  SOURCES test_train_arch.c ../train_rows.c ../gguf_make.c ../model_make.c)
kvt_test(test_train_triattention LABEL unit MODULES train
  SOURCES test_train_triattention.c ../synth.c)
