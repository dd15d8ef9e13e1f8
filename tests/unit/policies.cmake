kvt_test(test_pieces LABEL unit MODULES replay SOURCES test_pieces.c ../toy.c)
kvt_test(test_pieces_window LABEL unit MODULES replay SOURCES test_pieces_window.c)
kvt_test(test_shares LABEL unit MODULES replay SOURCES test_shares.c)
kvt_test(test_policy_cases LABEL unit MODULES replay
  SOURCES test_policy_cases.c ../mini.c ../mini_cut.c ../toy.c)
