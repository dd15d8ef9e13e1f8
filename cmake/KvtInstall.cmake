# libkvt, headers, program, manual pages, completions, kvt.pc. Filled when the program links.
