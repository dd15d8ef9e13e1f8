/* version.h - what this program is. version.c is configured with the commit when it is built.
 */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

const char *version_text(void);   /* "0.1.0" */
const char *version_commit(void); /* "3f2c9aa", "unknown" outside a checkout */
const char *version_full(void);   /* "kvt 0.1.0 (commit 3f2c9aa)" */

/* Folders that the build knows: where headers for plug-ins and the samples lie (installed place
 * first, then the source tree). */
const char *version_source_dir(void);
const char *version_install_prefix(void);

#endif
