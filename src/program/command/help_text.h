/* What a help text contains, for completion and manual pages: the help of a command is the one
 * place where its options are named. */
#ifndef SEMEL_PROGRAM_COMMAND_HELP_TEXT_H
#define SEMEL_PROGRAM_COMMAND_HELP_TEXT_H

#include "program/cli.h"
#include "program/support/memory.h"

/* The long options of a command, each once, with a space behind each; --help is the last. */
void help_options(buffer *out, const command *of);

/* The words that may follow a command ("dump explain "): what its lines of usage say, or, for
 * `[COMMAND]`, all commands. */
void help_words(buffer *out, const command *of);

/* As a part of a manual page: usage and tables become lists, the rest paragraphs. */
void help_manual(buffer *out, const command *of);

#endif
