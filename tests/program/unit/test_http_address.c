/* Which addresses are public. */
#include "program/handler/http_address.h"
#include "support/base/check.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static int is_public(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return http_address_is_public((const struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return http_address_is_public((const struct sockaddr *)&v6);
}

static void addresses_are_public_or_not(void **state)
{
    static const char *const yes[] = {"1.1.1.1",         "9.255.255.255",    "11.0.0.1",
                                      "100.63.255.255",  "100.128.0.1",      "126.255.255.255",
                                      "128.0.0.1",       "172.15.255.255",   "172.32.0.1",
                                      "192.167.255.255", "223.255.255.255",  "2606:4700::1111",
                                      "::ffff:1.1.1.1",  "64:ff9b::101:101", "2002:101:101::1"};
    static const char *const no[] = {"0.0.0.0",
                                     "10.0.0.1",
                                     "10.255.255.255",
                                     "100.64.0.1",
                                     "127.0.0.1",
                                     "127.255.255.255",
                                     "169.254.169.254",
                                     "172.16.0.1",
                                     "172.31.255.255",
                                     "192.168.0.1",
                                     "192.0.0.8",
                                     "198.18.0.1",
                                     "224.0.0.1",
                                     "240.0.0.1",
                                     "255.255.255.255",
                                     "::",
                                     "::1",
                                     "::127.0.0.1",
                                     "fe80::1",
                                     "fec0::1",
                                     "fc00::1",
                                     "fd12::1",
                                     "ff02::1",
                                     "::ffff:127.0.0.1",
                                     "::ffff:10.0.0.1",
                                     "64:ff9b::7f00:1",
                                     "2002:7f00:1::",
                                     "2001::1",
                                     "2001:db8::1"};
    (void)state;
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!is_public(yes[i]))
            fail_msg("%s is refused", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (is_public(no[i]))
            fail_msg("%s is allowed", no[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(addresses_are_public_or_not)};
    return cmocka_run_group_tests_name("http_address", tests, NULL, NULL);
}
