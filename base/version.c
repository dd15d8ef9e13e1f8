/* version.c - what this program is. The commit comes from a header that each build writes anew
 * where it has changed, so that only this file is compiled again. */
#include "base/version.h"

#include "kvt_commit.h"

const char *version_text(void)
{
    return KVT_VERSION;
}

const char *version_commit(void)
{
    return KVT_COMMIT;
}

const char *version_full(void)
{
    return "kvt " KVT_VERSION " (commit " KVT_COMMIT ")";
}

const char *version_source_dir(void)
{
    return KVT_SOURCE_DIR;
}

const char *version_install_prefix(void)
{
    return KVT_PREFIX;
}
