/* Ranges by RFC 6890 and its registries. What is not known is not public. */
#include "program/handler/http_address.h"

#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

static int is_public_v4(uint32_t address)
{
    static const struct {
        uint32_t net;
        int bits;
    } refused[] = {
        {UINT32_C(0x00000000), 8},  /* this network */
        {UINT32_C(0x0A000000), 8},  /* 10.0.0.0: private */
        {UINT32_C(0x64400000), 10}, /* 100.64.0.0: shared by carriers */
        {UINT32_C(0x7F000000), 8},  /* loopback */
        {UINT32_C(0xA9FE0000), 16}, /* 169.254.0.0: link-local, and metadata of clouds */
        {UINT32_C(0xAC100000), 12}, /* 172.16.0.0: private */
        {UINT32_C(0xC0000000), 24}, /* 192.0.0.0: protocols */
        {UINT32_C(0xC0000200), 24}, /* documentation, as the two below */
        {UINT32_C(0xC0A80000), 16}, /* 192.168.0.0: private */
        {UINT32_C(0xC6120000), 15}, /* 198.18.0.0: benchmarks */
        {UINT32_C(0xC6336400), 24}, {UINT32_C(0xCB007100), 24},
        {UINT32_C(0xE0000000), 3}, /* multicast, reserved, broadcast */
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if ((address ^ refused[i].net) >> (32 - refused[i].bits) == 0)
            return 0;
    return 1;
}

static uint32_t v4_at(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Only 2000::/3 is given out, and parts of it stand for IPv4 addresses. */
static int is_public_v6(const unsigned char *a)
{
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    static const unsigned char translated[12] = {0, 0x64, 0xff, 0x9b};
    if (memcmp(a, mapped, 12) == 0 || memcmp(a, translated, 12) == 0)
        return is_public_v4(v4_at(a + 12));
    if ((a[0] & 0xE0) != 0x20)
        return 0;
    if (a[0] == 0x20 && a[1] == 0x02) /* 6to4 */
        return is_public_v4(v4_at(a + 2));
    if (a[0] == 0x20 && a[1] == 0x01 && a[2] < 0x02) /* Teredo and other protocols */
        return 0;
    return !(a[0] == 0x20 && a[1] == 0x01 && a[2] == 0x0d && a[3] == 0xb8);
}

int http_address_is_public(const struct sockaddr *address)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (address->sa_family == AF_INET) {
        memcpy(&v4, address, sizeof v4);
        return is_public_v4(ntohl(v4.sin_addr.s_addr));
    }
    if (address->sa_family != AF_INET6)
        return 0;
    memcpy(&v6, address, sizeof v6);
    return is_public_v6(v6.sin6_addr.s6_addr);
}
