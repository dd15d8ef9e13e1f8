# kvt replay against replay_reference.py, a plain numpy program, on synthetic traces.
add_executable(make_synth ../synth_main.c ../synth.c)
kvt_link(make_synth traces)
