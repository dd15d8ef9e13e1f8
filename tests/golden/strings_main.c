/* strings_main.c - prints the golden strings for tokens.py: 4 bytes of length, little-endian,
 * and the bytes, one string behind the other. */
#include "strings.h"

#include <stdio.h>

int main(void)
{
    static char text[GOLDEN_STRING_MAX];
    for (int i = 0; i < GOLDEN_STRINGS; i++) {
        size_t n = golden_string(text, i);
        for (int k = 0; k < 4; k++)
            if (putchar((int)((n >> (8 * k)) & 0xff)) == EOF)
                return 1;
        if (fwrite(text, 1, n, stdout) != n)
            return 1;
    }
    return fflush(stdout) ? 1 : 0;
}
