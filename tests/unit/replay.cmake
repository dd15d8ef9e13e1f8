kvt_test(test_replay LABEL unit MODULES replay SOURCES test_replay.c ../plain.c ../synth.c)
