kvt_test(test_stat LABEL unit MODULES analyze SOURCES test_stat.c)
kvt_test(test_report LABEL unit MODULES analyze SOURCES test_report.c)
kvt_test(test_long LABEL unit MODULES analyze SOURCES test_long.c ../synth.c)
kvt_test(test_labels LABEL unit MODULES analyze SOURCES test_labels.c)
