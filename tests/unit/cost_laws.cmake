# Tests of the cost model: laws.
kvt_test(test_cost_laws LABEL unit MODULES replay
  SOURCES test_cost_laws.c test_cost_laws_case.c)
kvt_test(test_cost_laws_order LABEL unit MODULES replay
  SOURCES test_cost_laws_order.c test_cost_laws_case.c)
kvt_test(test_cost_laws_scale LABEL unit MODULES replay
  SOURCES test_cost_laws_scale.c test_cost_laws_case.c)
kvt_test(test_cost_laws_storage LABEL unit MODULES replay
  SOURCES test_cost_laws_storage.c test_cost_laws_case.c)
kvt_test(test_cost_laws_together LABEL unit MODULES replay
  SOURCES test_cost_laws_together.c test_cost_laws_case.c)
kvt_test(test_cost_laws_lanes LABEL unit MODULES replay SOURCES test_cost_laws_lanes.c)
