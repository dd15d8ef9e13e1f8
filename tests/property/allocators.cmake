kvt_test(test_oracle_budget LABEL property MODULES replay SOURCES test_oracle_budget.c)
