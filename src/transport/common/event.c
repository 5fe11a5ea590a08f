#include "transport/common/event.h"

#include "base/text.h"
#include "base/utf8.h"

static int is_attribute(const char *name)
{
    static const char *const known[] = {"id",
                                        "source",
                                        "type",
                                        "subject",
                                        "partitionkey",
                                        "correlationid",
                                        "datacontenttype",
                                        "specversion",
                                        "time",
                                        "data",
                                        "data_base64"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (text_same(name, known[i]))
            return 1;
    return 0;
}

static int is_letters_and_digits(const char *name)
{
    for (; *name; name++) {
        char c = text_lower(*name);
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'))
            return 0;
    }
    return 1;
}

int event_header_is_extension(const semel_message *message, size_t index)
{
    const semel_header *header = &message->headers[index];
    if (!is_letters_and_digits(header->name) || is_attribute(header->name) ||
        !utf8_plain(header->value.data, header->value.len))
        return 0;
    for (size_t i = 0; i < index; i++)
        if (text_same(message->headers[i].name, header->name))
            return 0;
    return 1;
}
