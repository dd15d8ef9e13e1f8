/* info_parts.c - lines and the head of a learned file, for all kinds of kvt info. */
#include "cli/info_parts.h"

#include <string.h>

#include "base/text.h"

enum { COLUMNS = 1000 };

void info_line(FILE *out, const cli *c, int width, const char *name, const char *text)
{
    char safe[4 * COLUMNS + 200];
    text_safe_cut(safe, sizeof safe, (const uint8_t *)text, strlen(text), COLUMNS,
                  !cli_utf8(c));
    fprintf(out, "%-*s %s\n", width, name, safe);
}

const char *info_short(const char *digest, char out[16])
{
    snprintf(out, 16, "%.8s", digest);
    return digest[0] ? out : "not named";
}

json_t *info_text_json(const char *text)
{
    json_t *j = json_string(text); /* NULL where it is no UTF-8 */
    return j ? j : json_null();
}

json_t *info_recipe_json(const char *recipe)
{
    json_t *j;
    kvt_err ignored; /* a recipe is for people: one that is no JSON harms nothing */
    return json_read(&j, recipe, strlen(recipe), &ignored) ? json_null() : j;
}

json_t *info_head_json(const char *schema, const info_head *h)
{
    json_t *top = json_object();
    json_object_set_new(top, "schema", json_string(schema));
    json_object_set_new(top, "path", info_text_json(h->path));
    json_object_set_new(top, "kind", info_text_json(h->kind));
    json_object_set_new(top, "digest", info_text_json(h->digest));
    json_object_set_new(top, "weights_digest", info_text_json(h->weights_digest));
    json_object_set_new(top, "model", info_text_json(h->model));
    return top;
}
