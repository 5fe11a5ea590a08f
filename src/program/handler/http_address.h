/* Which addresses a webhook may reach if private ones are refused. */
#ifndef SEMEL_PROGRAM_HANDLER_HTTP_ADDRESS_H
#define SEMEL_PROGRAM_HANDLER_HTTP_ADDRESS_H

struct sockaddr;

/* 1 if it is an address of the public internet: not of this host, a private or shared network, a
 * link, a multicast group, or a range that is reserved; and the same for an IPv4 address inside an
 * IPv6 address. */
int http_address_is_public(const struct sockaddr *address);

#endif
