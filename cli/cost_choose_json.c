/* cost_choose_json.c - the choice as one JSON object. */
#include "cli/cost_choose_json.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/size.h"
#include "cli/table.h"

static void add_text(buf *b, const char *key, const char *text)
{
    buf_printf(b, "\"%s\": ", key);
    if (text)
        json_quote(b, text, strlen(text));
    else
        buf_text(b, "null");
    buf_text(b, ", ");
}

static void add_number(buf *b, const char *key, double x)
{
    char text[48];
    real_print(x, text, sizeof text);
    buf_printf(b, "\"%s\": %s, ", key, text[0] ? text : "null");
}

static void add_int(buf *b, const char *key, int64_t x)
{
    if (x == KVT_EMPTY_INT)
        buf_printf(b, "\"%s\": null, ", key);
    else
        buf_printf(b, "\"%s\": %lld, ", key, (long long)x);
}

void cli_choose_json_begin(const kvt_selection *c, const char *axis)
{
    kvt_table t = kvt_selection_table(c);
    printf("{\"schema\": \"kvt-selection-1\", \"axis\": \"%s\",\n \"rows\": ", axis);
    cli_json_rows(stdout, &t);
    printf(",\n \"winners\": [");
}

static void add_margin(buf *b, const kvt_difference *d)
{
    add_number(b, "margin_frac", d->mean);
    add_number(b, "margin_ci_lo_frac", d->lo);
    add_number(b, "margin_ci_hi_frac", d->hi);
    add_text(b, "interval", kvt_interval_name(d->kind));
    add_number(b, "p_value", d->p_value);
    add_int(b, "traces_count", d->n_trace);
    add_int(b, "prompts_count", d->n_needed);
    buf_printf(b, "\"separable\": %s}", d->separable ? "true" : "false");
}

kvt_code cli_choose_json_winner(const kvt_selection *c, const kvt_winner *w, int64_t first,
                                kvt_err *err)
{
    const kvt_selection_row *g = &c->row[first];
    const kvt_selection_row *won = w->row >= 0 ? &c->row[w->row] : NULL;
    const kvt_selection_row *next = w->runner_up >= 0 ? &c->row[w->runner_up] : NULL;
    buf b;
    buf_init(&b, 1 << 16);
    buf_text(&b, first ? ",\n  {" : "\n  {");
    add_text(&b, "machine", g->machine);
    add_text(&b, "profile", g->profile);
    add_text(&b, "geometry", g->geometry);
    add_int(&b, "batch", g->batch);
    add_int(&b, "prompt_tokens", g->prompt_tokens);
    add_int(&b, "rows_count", w->n_row);
    add_int(&b, "meet_count", w->n_meet);
    add_text(&b, "policy", won ? won->policy_label : NULL);
    add_text(&b, "budget_asked", won ? won->budget_asked : NULL);
    add_text(&b, "runner_up", next ? next->policy_label : NULL);
    add_text(&b, "runner_up_budget_asked", next ? next->budget_asked : NULL);
    add_number(&b, "headroom_frac", w->headroom_frac);
    add_margin(&b, &w->margin);
    kvt_code code = buf_check(&b, err);
    if (!code)
        fputs(buf_get(&b), stdout);
    buf_fini(&b);
    return code;
}

void cli_choose_json_end(void)
{
    printf("]}\n");
}
