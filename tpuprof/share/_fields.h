/* Reads fields of serialized protobuf messages, for the walks that redact and cut profiles. No Python, no allocation. */
#ifndef TPUPROF_FIELDS_H
#define TPUPROF_FIELDS_H

#include <stddef.h>
#include <stdint.h>

enum { FIELD_VARINT = 0, FIELD_FIXED64 = 1, FIELD_BYTES = 2, FIELD_FIXED32 = 5 };
/* Field numbers beyond this do not occur in the formats we see; text read as a message gives such at once. */
enum { FIELD_MOST = 4096 };

/* Read a varint; the position after it, -1 where it does not end. What has more than 64 bits is the largest. */
static inline ptrdiff_t field_varint(const unsigned char *data, ptrdiff_t at, ptrdiff_t size, uint64_t *value) {
    int large = 0;
    *value = 0;
    for (int shift = 0; at < size && shift < 70; shift += 7) {
        uint64_t byte = data[at++];
        if (shift == 63 && (byte & 0x7E)) large = 1;
        *value |= (byte & 0x7F) << shift;
        if (byte < 0x80) {
            if (large) *value = UINT64_MAX;
            return at;
        }
    }
    return -1;
}

/* Write a varint; how many bytes it takes, ten at most. */
static inline int field_put_varint(unsigned char *found, uint64_t value) {
    int size = 0;
    for (; value > 0x7F; value >>= 7) found[size++] = (unsigned char)(value & 0x7F) | 0x80;
    found[size++] = (unsigned char)value;
    return size;
}

/* Read a field: its key, and its number or, of bytes, their length. The position after it, or of the bytes before
   them; -1 where it is none, or does not end. */
static inline ptrdiff_t field_read(const unsigned char *data, ptrdiff_t at, ptrdiff_t size, uint64_t *key,
                                   uint64_t *value) {
    *value = 0;
    at = field_varint(data, at, size, key);
    if (at < 0 || *key >> 3 == 0 || *key >> 3 > FIELD_MOST) return -1;
    switch (*key & 7) {
    case FIELD_VARINT:
        return field_varint(data, at, size, value);
    case FIELD_BYTES:
        at = field_varint(data, at, size, value);
        return at < 0 || *value > (uint64_t)(size - at) ? -1 : at;
    case FIELD_FIXED64:
        return size - at < 8 ? -1 : at + 8;
    case FIELD_FIXED32:
        return size - at < 4 ? -1 : at + 4;
    default:
        return -1;
    }
}

/* Whether bytes read as fields to their end. */
static inline int field_message(const unsigned char *data, ptrdiff_t size) {
    ptrdiff_t at = 0;
    uint64_t key, value;
    while (at < size) {
        at = field_read(data, at, size, &key, &value);
        if (at < 0) return 0;
        if ((key & 7) == FIELD_BYTES) at += (ptrdiff_t)value;
    }
    return 1;
}

#endif
