kvt_test(test_train_scorers LABEL golden MODULES train SOURCES test_train_scorers.c)
