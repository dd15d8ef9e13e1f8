/* tokenizer_priv.h - growing a token list, for tokenizer.c and token_list.c. */
#ifndef CAPTURE_TOKENIZER_PRIV_H
#define CAPTURE_TOKENIZER_PRIV_H

#include "capture/tokenizer.h"

enum { TOKEN_TEXT_LIMIT = 1 << 30 }; /* bytes */

/* Room for `more` tokens. */
KVT_CHECKED kvt_code token_list_reserve(token_list *list, int64_t more, kvt_err *err);
/* Appends a token of n bytes, for which there is room; the text is appended apart. */
void token_list_put(token_list *list, int32_t id, int64_t n, uint8_t flag);

/* Appends a space that the tokenizer puts in. */
KVT_CHECKED kvt_code token_list_space(token_list *list, kvt_err *err);

#endif
