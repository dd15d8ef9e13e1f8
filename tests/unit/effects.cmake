# What becomes of slots and channels beside eviction: turned keys, dropped channels, skipping.
kvt_test(test_pieces_rope LABEL unit MODULES replay SOURCES test_pieces_rope.c ../toy.c)
