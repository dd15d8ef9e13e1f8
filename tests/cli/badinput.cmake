# Bad input, as people meet it: each row is a command, its exit status, a part of its one line of
# error, and a folder in which nothing half-written may lie. A tiny random model stands in for a
# real one.
add_executable(make_gguf ../gguf_main.c ../gguf_make.c ../gguf_llama.c)
kvt_link(make_gguf base)
