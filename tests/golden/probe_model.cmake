# Probes on the first real model; skipped where it is not there.
kvt_test(test_probe_model LABEL golden MODULES live SOURCES test_probe_model.c)
