/* token_list.c - tokens beside the text that they tile. */
#include "capture/tokenizer_priv.h"

#include "kvt/arena.h"

void token_list_init(token_list *list)
{
    *list = (token_list){0};
    buf_init(&list->text, TOKEN_TEXT_LIMIT);
}

void token_list_fini(token_list *list)
{
    kvt_free(list->id);
    kvt_free(list->offset);
    kvt_free(list->flag);
    kvt_free(list->space);
    buf_fini(&list->text);
    *list = (token_list){0};
}

kvt_code token_list_reserve(token_list *list, int64_t more, kvt_err *err)
{
    int64_t need = list->n + more;
    if (need <= list->cap)
        return KVT_OK;
    int64_t cap = need < 2 * list->cap ? 2 * list->cap : need < 64 ? 64 : need;
    int32_t *id = kvt_resize(list->id, list->cap, cap, sizeof *id);
    if (id)
        list->id = id;
    int64_t *offset =
        kvt_resize(list->offset, list->cap ? list->cap + 1 : 0, cap + 1, sizeof *offset);
    if (offset)
        list->offset = offset;
    uint8_t *flag = kvt_resize(list->flag, list->cap, cap, sizeof *flag);
    if (flag)
        list->flag = flag;
    if (!id || !offset || !flag)
        return kvt_fail_memory(err, (size_t)cap * (sizeof *id + sizeof *offset + sizeof *flag));
    if (list->n == 0)
        list->offset[0] = 0;
    list->cap = cap;
    return KVT_OK;
}

void token_list_put(token_list *list, int32_t id, int64_t n, uint8_t flag)
{
    list->id[list->n] = id;
    list->flag[list->n] = flag;
    list->offset[list->n + 1] = list->offset[list->n] + n + list->carry;
    list->carry = 0;
    list->n++;
}

kvt_code token_list_space(token_list *list, kvt_err *err)
{
    if (list->n_space == list->cap_space) {
        int64_t cap = list->cap_space ? 2 * list->cap_space : 16;
        size_t *space = kvt_resize(list->space, list->cap_space, cap, sizeof *space);
        if (!space)
            return kvt_fail_memory(err, (size_t)cap * sizeof *space);
        list->space = space;
        list->cap_space = cap;
    }
    list->space[list->n_space++] = list->text.n;
    buf_char(&list->text, ' ');
    return buf_check(&list->text, err);
}

kvt_code token_list_push(token_list *list, const tokenizer *t, int32_t id, uint8_t flag,
                         kvt_err *err)
{
    if (id < 0 || id >= tokenizer_count(t))
        return kvt_fail(err, KVT_FORMAT, "token: expected an id below %lld, got %d",
                        (long long)tokenizer_count(t), (int)id);
    token_text text = tokenizer_bytes(t, id);
    if (token_list_reserve(list, 1, err))
        return err->code;
    buf_add(&list->text, text.data, text.n);
    if (buf_check(&list->text, err))
        return err->code;
    token_list_put(list, id, (int64_t)text.n,
                   (uint8_t)(flag | (tokenizer_is_special(t, id) ? KVT_TOKEN_SPECIAL : 0)));
    return KVT_OK;
}
