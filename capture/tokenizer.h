/* tokenizer.h - text to token ids and back, with the byte range of every token.
 *
 *   tokenizer *t;
 *   tokenizer_open(&t, gguf, NULL, &err);
 *   token_list list;
 *   token_list_init(&list);
 *   tokenizer_encode(t, &list, text, n, &(tokenizer_range){0, n}, 1, true, &err);
 *   ... list.id[0 .. list.n), token i is list.text[list.offset[i] .. list.offset[i + 1]) ...
 *   token_list_fini(&list);
 *   tokenizer_free(t);
 *
 * Control tokens of the vocabulary (<|im_end|>) are recognised only where the caller says so:
 * in what a chat template put there, never in what a person wrote. A tokenizer is used by one
 * thread at a time. */
#ifndef CAPTURE_TOKENIZER_H
#define CAPTURE_TOKENIZER_H

#include "base/buf.h"
#include "capture/vocab.h"
#include "kvt/sequence.h" /* KVT_TOKEN_SPECIAL ... */

/* Types of tokens, as GGUF counts them. */
enum {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER = 4, /* matches in any text */
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6
};

/* Where a space is put in front of the text between two cut-out tokens (SentencePiece's "dummy
 * prefix"); it is part of the tokenized text. */
typedef enum tokenizer_space {
    TOKENIZER_SPACE_NONE,
    TOKENIZER_SPACE_FIRST, /* where the text begins */
    TOKENIZER_SPACE_EACH   /* there, and behind every cut-out token */
} tokenizer_space;

/* What a model file says. Everything is borrowed until tokenizer_new returns. */
typedef struct tokenizer_source {
    const char *model; /* "gpt2": byte-level BPE; "llama": merges by score; "bpe": characters
                        * and a list of merges. Another kind is refused by name */
    const char *pre;   /* "smollm", for gpt2 only, where NULL (absent) and unknown names are
                        * refused */
    const token_text *token; /* [V] */
    const int32_t *type;     /* [V], or NULL: all normal */
    const float *score;      /* [V], for llama only */
    int64_t n_token;
    const token_text *merge; /* [n_merge] "left right", or left parts where `right` is given */
    const token_text *right; /* [n_merge], or NULL */
    int64_t n_merge;
    int32_t bos, eos, eot, unk; /* -1: none */
    const int32_t *stop;        /* [n_stop] more ends of text */
    int64_t n_stop;
    /* 0, 1, or -1: the default of the kind or its pre-tokenizer */
    int add_bos;
    int nfc;           /* bring text to NFC */
    int ignore_merges; /* a word that is a token is taken as it is */
    int space;         /* a tokenizer_space, or -1 */
    bool space_once;   /* no second space where the text begins with one */
    bool fuse_unk;     /* a run of unknown characters is one token */
    const char *chat;  /* the chat template (Jinja); NULL: none */
} tokenizer_source;

/* One that says nothing: no tokens, no ids, defaults everywhere. */
tokenizer_source tokenizer_source_empty(void);

typedef struct tokenizer tokenizer;

/* From a model file's metadata (tokenizer.ggml.*). pre: replaces what the file says; NULL: the
 * file's. FORMAT names the key that is missing or wrong; USAGE: pre for a kind without one. */
struct gguf;
KVT_CHECKED kvt_code tokenizer_open(tokenizer **out, const struct gguf *g, const char *pre,
                                    kvt_err *err);
/* From a folder of Hugging Face's files: tokenizer.json, and where they are there
 * tokenizer_config.json, generation_config.json, config.json and chat_template.jinja. FORMAT
 * names file and field; NOTFOUND: no tokenizer.json. */
KVT_CHECKED kvt_code tokenizer_open_folder(tokenizer **out, const char *folder, const char *pre,
                                           kvt_err *err);
/* From parts; FORMAT names the field that is wrong. */
KVT_CHECKED kvt_code tokenizer_new(tokenizer **out, const tokenizer_source *source,
                                   kvt_err *err);
void tokenizer_free(tokenizer *t); /* NULL is fine */

/* The model's chat template, for template_find; NULL: none. */
const char *tokenizer_chat(const tokenizer *t);
int64_t tokenizer_count(const tokenizer *t); /* V; rows of the embedding above it are padding */
/* "gpt2/smollm", "llama", "bpe": the kind, and its pre-tokenizer where it has one. */
const char *tokenizer_kind(const tokenizer *t);
const char *tokenizer_pre(const tokenizer *t); /* "smollm"; NULL: the kind has none */
int32_t tokenizer_bos(const tokenizer *t);     /* -1: none */
bool tokenizer_adds_bos(const tokenizer *t);   /* whether encoding puts one in front */
bool tokenizer_is_stop(const tokenizer *t, int32_t id);
bool tokenizer_is_special(const tokenizer *t, int32_t id);            /* a control token */
int32_t tokenizer_find_special(const tokenizer *t, const char *text); /* "<|im_end|>", or -1 */
/* The bytes of a token, borrowed; id in [0, V). A token may be half a character. */
token_text tokenizer_bytes(const tokenizer *t, int32_t id);

/* Tokens with the text that they tile. Growing; token_list_fini frees it. */
typedef struct token_list {
    int32_t *id;     /* [n] */
    int64_t *offset; /* [n + 1] bytes of text; NULL while n is 0 */
    uint8_t *flag;   /* [n] KVT_TOKEN_SPECIAL; the caller adds the others */
    int64_t n, cap;
    buf text;       /* what was tokenized, in normal form */
    int64_t n_lost; /* bytes of the text for which the vocabulary has no token: left out, as the
                     * model's own tokenizer does, in the range of a neighbour; or become its
                     * token for what is unknown */
    int64_t carry;  /* such bytes in front of the first token */
    size_t *space;  /* [n_space] where in the text the tokenizer put a space, ascending */
    int64_t n_space, cap_space;
} token_list;

void token_list_init(token_list *list);
void token_list_fini(token_list *list);
/* Appends one token and the bytes that it stands for, e.g. a generated one. */
KVT_CHECKED kvt_code token_list_push(token_list *list, const tokenizer *t, int32_t id,
                                     uint8_t flag, kvt_err *err);

/* Bytes [begin, end) of a text. */
typedef struct tokenizer_range {
    size_t begin, end;
} tokenizer_range;

/* Appends the tokens of valid UTF-8. Control tokens are cut out (leftmost, then longest) only
 * where they lie whole within one of the n_special ranges (ascending, apart); what lies between
 * them is tokenized in one go, so that borders of ranges change no ids. first: this is where a
 * sequence begins. It gets a BOS where the model wants one (tokenizer_adds_bos), the list is
 * empty and the text does not begin with one already (it stands for no text: its byte range is
 * empty), and spaces where the kind puts them. FORMAT with the place of bytes that are no
 * UTF-8. */
KVT_CHECKED kvt_code tokenizer_encode(tokenizer *t, token_list *list, const char *text,
                                      size_t n, const tokenizer_range *special,
                                      int64_t n_special, bool first, kvt_err *err);

/* The text as the tokenizer will see it but for spaces that it puts in: NFC where the model has
 * it, a space for U+2581 where the vocabulary writes spaces so; else a copy. Whoever needs byte
 * places in the tokenized text brings it to normal form before putting it together. */
KVT_CHECKED kvt_code tokenizer_normal_form(const tokenizer *t, buf *out, const char *text,
                                           size_t n, kvt_err *err);

/* How many of n bytes end with a whole character: what follows is the begin of one that the
 * next token may finish. A stream prints these and holds the rest back. */
size_t tokenizer_whole(const char *bytes, size_t n);

#endif
