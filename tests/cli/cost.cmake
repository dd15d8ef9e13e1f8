# kvt cost.
