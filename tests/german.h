/* german.h - a locale with a decimal comma, for C070: everything must read and write the same.
 */
#ifndef TESTS_GERMAN_H
#define TESTS_GERMAN_H

#include <locale.h>
#include <stdbool.h>
#include <stdlib.h>

/* Puts the process into de_DE.UTF-8. Where the system has none, it is built once by localedef
 * in the build folder; false where that is not possible, too: the caller skips. */
static inline bool enter_german(void)
{
    static const char dir[] = KVT_BINARY_DIR "/locale";
    if (setlocale(LC_ALL, "de_DE.UTF-8"))
        return true;
    setenv("LOCPATH", dir, 1);
    if (setlocale(LC_ALL, "de_DE.UTF-8"))
        return true;
    /* Its status also tells of warnings: whether the locale is there is asked of setlocale().
     */
    int status = system("mkdir -p '" KVT_BINARY_DIR
                        "/locale' && localedef -i de_DE -f UTF-8 '" KVT_BINARY_DIR
                        "/locale/de_DE.UTF-8' >/dev/null 2>&1");
    (void)status;
    return setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
}

#endif
