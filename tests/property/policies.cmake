set(kvt_toys ../mini.c ../mini_cut.c ../toy.c ../toy_more.c ../synth.c ../synth_probe.c ../synth_scorer.c)
kvt_test(test_policies LABEL property MODULES replay SOURCES test_policies.c ${kvt_toys})
kvt_test(test_engine_mini LABEL property MODULES replay SOURCES test_engine_mini.c ${kvt_toys})
