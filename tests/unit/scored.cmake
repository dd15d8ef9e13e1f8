# Policies with a learned score, through the engine.
kvt_test(test_policies_scored LABEL unit MODULES replay SOURCES test_policies_scored.c)
