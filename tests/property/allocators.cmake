kvt_test(test_oracle_budget LABEL property MODULES replay SOURCES test_oracle_budget.c)
kvt_test(test_share_laws LABEL property MODULES replay SOURCES test_share_laws.c laws.c ${kvt_toys})
