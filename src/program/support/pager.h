/* A long text goes through a pager where a person reads it: $SEMEL_PAGER, $PAGER or less -FRX. */
#ifndef SEMEL_PROGRAM_SUPPORT_PAGER_H
#define SEMEL_PROGRAM_SUPPORT_PAGER_H

/* From now on the standard output is kept, if it is a terminal, until pager_end() shows it: through
 * the pager if it is longer than the screen. Nothing is kept if `off`, if TERM is dumb or missing,
 * if the height of the screen is not known, or if there is no pager. */
void pager_begin(int off);

/* Shows what was kept, and waits until the reader has left the pager. Without a beginning, or a
 * second time, it does nothing. */
void pager_end(void);

#endif
