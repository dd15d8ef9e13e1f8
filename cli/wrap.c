/* wrap.c - see wrap.h. */
#include "cli/wrap.h"

#include <stdbool.h>
#include <string.h>

/* Bytes of the `n` at `s` that go on a line with `room` left: a list without blanks that is
 * longer is broken behind a comma, another word stays whole. */
static int part_length(const char *s, int n, int room)
{
    int cut = 0;
    for (int i = 0; i < n && (i < room || !cut); i++)
        if (s[i] == ',')
            cut = i + 1;
    return n <= room || !cut ? n : cut;
}

void cli_wrap(FILE *out, const char *text, int at, int indent, int width)
{
    bool first = true;

    for (const char *s = text; *s;) {
        if (*s == '\n') { /* a line ends; an empty one has no blanks */
            fprintf(out, "\n%*s", s[1] == '\n' ? 0 : indent, "");
            at = indent;
            first = true;
            s++;
            continue;
        }
        int n = (int)strcspn(s, " \n");
        if (!first && at + 1 + n > width) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
            first = true;
        }
        int part = part_length(s, n, width - at - !first);
        fprintf(out, "%s%.*s", first ? "" : " ", part, s);
        at += part + (first ? 0 : 1);
        first = part < n;
        if (part < n) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        }
        s += part;
        while (*s == ' ')
            s++;
    }
    fputc('\n', out);
}
