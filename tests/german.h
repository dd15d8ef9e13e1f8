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
    if (setlocale(LC_ALL, "de_DE.UTF-8"))
        return true;
    setenv("LOCPATH", KVT_BINARY_DIR "/locale", 1);
    /* glibc remembers what it did not find: the locale must be there before it is asked for.
     * Built under a name of its own, so that two tests at once do not meet. */
    int status = system("cd '" KVT_BINARY_DIR "' && mkdir -p locale && cd locale && "
                        "{ test -d de_DE.UTF-8 || { localedef -i de_DE -f UTF-8 ./de_DE.$$; "
                        "mv -T de_DE.$$ de_DE.UTF-8 || rm -rf de_DE.$$; }; } >/dev/null 2>&1");
    (void)status;
    return setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
}

#endif
