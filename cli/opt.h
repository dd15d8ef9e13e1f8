/* opt.h - reading a command line by the option tables.
 *
 * Names are exact: getopt_long()'s abbreviations are refused, because a new option would change
 * what an old script means. Operands and options may come in any order; "--" ends options. */
#ifndef CLI_OPT_H
#define CLI_OPT_H

#include "cli/cli.h"

enum { CLI_RANGE_MAX = 256 };

/* Every option's `def`, or zero. */
void cli_opt_defaults(const cli_option *table, void *out);

/* Reads the common options in front of the verb. *at is the index of the first operand (argc:
 * there is none). USAGE. */
KVT_CHECKED kvt_code cli_opt_front(cli *c, int argc, char **argv, int *at, kvt_err *err);

/* Reads argv[1...] by the verb's table into `options` (zeroed; options_size bytes) and by the
 * common table into c. operand [argc] gets pointers into argv. Neither required operands nor
 * their number are checked where --help was given. USAGE. */
KVT_CHECKED kvt_code cli_opt_parse(cli *c, const cli_command *command, void *options, int argc,
                                   char **argv, char **operand, int *n_operand, kvt_err *err);

/* One value of an option, as typed. USAGE: "--threads: 0 is not a whole number from 1 to 1024".
 */
KVT_CHECKED kvt_code cli_opt_set(const cli_option *o, void *out, const char *text,
                                 kvt_err *err);

/* What may stand behind it: "whole number from 1 to 1024", "one of auto, always, never"; "" for
 * any text. Returns out. */
const char *cli_opt_range(const cli_option *o, char *out, size_t cap);

/* "2^53" bounds and other whole numbers without an exponent. */
const char *cli_opt_number(double x, char *out, size_t cap);

#endif
