/* Walks the protobuf wire format of an XSpace without building messages. No Python, no allocation.

   Every read is checked against the end of the message it belongs to. A message means here what it means to
   the protobuf library: the last value of a field wins, a known field under another wire type is unknown,
   unknown fields (groups too) are checked and skipped, and damage anywhere is an error.

   Functions return XS_OK or what is wrong, and leave in `cursor->at` about where. */
#ifndef TPUPROF_XSPACE_H
#define TPUPROF_XSPACE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { XS_OK = 0, XS_ENDED = 1, XS_MALFORMED = 2 };
enum { XS_VARINT = 0, XS_FIXED64 = 1, XS_BYTES = 2, XS_GROUP = 3, XS_GROUP_END = 4, XS_FIXED32 = 5 };
#define XS_TAG(field, wire) ((uint32_t)(field) << 3 | (wire))

/* Messages and groups nested deeper are refused, as by protobuf's own parser. */
enum { XS_MAX_DEPTH = 100 };
/* Stats are counted by the low bits of their keys: no line has more of a key than that. */
enum { XS_SEEN = 256 };

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
    int depth; /* messages around this one */
} xs_cursor;

/* One field: `value` of a number; `start` and `end` of bytes or a message. */
typedef struct {
    uint32_t tag;
    uint64_t value;
    const uint8_t *start;
    const uint8_t *end;
} xs_field;

/* A stat; `kind` is the number of the field that holds its value, 0 for none. */
typedef struct {
    int64_t key;
    int kind;
    uint64_t value;
    const uint8_t *start;
    const uint8_t *end;
} xs_stat;

typedef struct {
    const uint8_t *start;
    const uint8_t *end;
} xs_text;

/* Sums of the stat `key` by metadata id, in `room` places and one more for ids that have none; `negative` marks
   places where a value was below zero, `having` counts events with the stat. */
typedef struct {
    int64_t key;
    int64_t *total;
    uint8_t *negative;
    int64_t room;
    int64_t having;
} xs_sums;

typedef struct {
    int64_t id;
    int64_t timestamp_ns;
    xs_text name;
    xs_text display_name;
    int64_t events;
} xs_line;

typedef struct {
    int64_t key;
    int is_known;
    xs_text name;
    xs_text display_name;
} xs_entry;

/* Where `xs_stats_of_*` write their rows, at most `room` of them; `count` counts all the same. */
typedef struct {
    int64_t *row;
    int64_t *key;
    uint8_t *kind;
    uint64_t *bits;
    int64_t *length;
    int64_t room;
    int64_t count;
    const uint8_t *base;   /* texts are told by their distance from here */
    const int64_t *wanted; /* keys to keep, NULL for all */
    int64_t wanted_count;
    uint8_t wanted_low[XS_SEEN];
} xs_sink;

static inline int xs_varint(xs_cursor *c, uint64_t *value) {
    const uint8_t *at = c->at;
    if (at < c->end && *at < 0x80) {
        *value = *at;
        c->at = at + 1;
        return XS_OK;
    }
    uint64_t sum = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (at == c->end) return XS_ENDED;
        uint64_t byte = *at++;
        sum |= (byte & 0x7F) << shift; /* bits past the 64th are dropped */
        if (byte < 0x80) {
            *value = sum;
            c->at = at;
            return XS_OK;
        }
    }
    return XS_MALFORMED;
}

/* A tag or a length: at most five bytes. */
static inline int xs_short_varint(xs_cursor *c, uint64_t *value) {
    const uint8_t *before = c->at;
    int wrong = xs_varint(c, value);
    if (wrong) return wrong;
    return c->at - before > 5 ? XS_MALFORMED : XS_OK;
}

static inline int xs_tag(xs_cursor *c, uint32_t *tag) {
    uint64_t value;
    int wrong = xs_short_varint(c, &value);
    if (wrong) return wrong;
    if (value > UINT32_MAX || value < 8) return XS_MALFORMED;
    *tag = (uint32_t)value;
    return XS_OK;
}

static inline int xs_pass(xs_cursor *c, uint64_t bytes) {
    if (bytes > (uint64_t)(c->end - c->at)) return XS_ENDED;
    c->at += bytes;
    return XS_OK;
}

static inline int xs_pass_value(xs_cursor *c, xs_field *f) {
    int wrong;
    switch (f->tag & 7) {
    case XS_VARINT:
        return xs_varint(c, &f->value);
    case XS_FIXED64:
        if ((wrong = xs_pass(c, 8))) return wrong;
        memcpy(&f->value, c->at - 8, 8); /* the format is little-endian, as is every host XLA runs on */
        return XS_OK;
    case XS_FIXED32:
        return xs_pass(c, 4);
    case XS_BYTES:
        if ((wrong = xs_short_varint(c, &f->value))) return wrong;
        f->start = c->at;
        if ((wrong = xs_pass(c, f->value))) return wrong;
        f->end = c->at;
        return XS_OK;
    default:
        return XS_MALFORMED;
    }
}

/* Skips an unknown group whose start was just read, and those inside it. */
static int xs_pass_group(xs_cursor *c, uint32_t tag) {
    uint32_t open[XS_MAX_DEPTH];
    int depth = 0;
    int room = XS_MAX_DEPTH - c->depth;
    if (room < 1) return XS_MALFORMED;
    open[depth++] = tag >> 3;
    while (depth) {
        xs_field f = {0};
        int wrong = xs_tag(c, &f.tag);
        if (wrong) return wrong;
        switch (f.tag & 7) {
        case XS_GROUP:
            if (depth == room) return XS_MALFORMED;
            open[depth++] = f.tag >> 3;
            break;
        case XS_GROUP_END:
            if (open[--depth] != f.tag >> 3) return XS_MALFORMED;
            break;
        default:
            if ((wrong = xs_pass_value(c, &f))) return wrong;
        }
    }
    return XS_OK;
}

/* Reads the next field; the caller has seen that bytes are left. */
static inline int xs_next(xs_cursor *c, xs_field *f) {
    int wrong = xs_tag(c, &f->tag);
    if (wrong) return wrong;
    if ((f->tag & 7) == XS_GROUP) return xs_pass_group(c, f->tag);
    return xs_pass_value(c, f);
}

static inline xs_cursor xs_inside(const xs_cursor *c, const xs_field *f) {
    xs_cursor inner = {f->start, f->end, c->depth + 1};
    return inner;
}

/* Takes over where an inner walk stopped, so that the error names the place. */
static inline int xs_failed(xs_cursor *c, const xs_cursor *inner, int wrong) {
    c->at = inner->at;
    return wrong;
}

static inline int xs_read_stat(xs_cursor *c, xs_stat *stat) {
    xs_field f = {0};
    stat->key = 0;
    stat->kind = 0;
    stat->value = 0;
    stat->start = stat->end = NULL;
    while (c->at < c->end) {
        int wrong = xs_next(c, &f);
        if (wrong) return wrong;
        switch (f.tag) {
        case XS_TAG(1, XS_VARINT):
            stat->key = (int64_t)f.value;
            break;
        case XS_TAG(2, XS_FIXED64):
        case XS_TAG(3, XS_VARINT):
        case XS_TAG(4, XS_VARINT):
        case XS_TAG(7, XS_VARINT):
            stat->kind = (int)(f.tag >> 3);
            stat->value = f.value;
            break;
        case XS_TAG(5, XS_BYTES):
        case XS_TAG(6, XS_BYTES):
            stat->kind = (int)(f.tag >> 3);
            stat->start = f.start;
            stat->end = f.end;
            break;
        default:
            break;
        }
    }
    return XS_OK;
}

/* A stat's value as an integer: doubles are truncated toward zero, what is no number that fits counts as 0. */
static inline int64_t xs_integer(const xs_stat *stat) {
    double value;
    switch (stat->kind) {
    case 2:
        memcpy(&value, &stat->value, sizeof value);
        return value > -0x1p63 && value < 0x1p63 ? (int64_t)value : 0;
    case 3:
    case 4:
    case 7:
        return (int64_t)stat->value;
    default:
        return 0;
    }
}

/* Sums wrap, as numpy's do. */
static inline void xs_add(xs_sums *sums, int64_t id, int64_t value) {
    int64_t at = id >= 0 && id < sums->room ? id : sums->room;
    sums->total[at] = (int64_t)((uint64_t)sums->total[at] + (uint64_t)value);
    sums->negative[at] |= value < 0;
    sums->having++;
}

/* Reads one event; counts its stats in `seen` by the low bits of their keys, and sums one of them if asked. */
static inline int xs_read_event(xs_cursor *c, int64_t *metadata_id, int64_t *offset, int64_t *duration,
                                int64_t *seen, xs_sums *sums) {
    xs_field f = {0};
    int64_t id = 0, at = 0, lasts = 0, value = 0;
    int has = 0;
    while (c->at < c->end) {
        int wrong = xs_next(c, &f);
        if (wrong) return wrong;
        switch (f.tag) {
        case XS_TAG(1, XS_VARINT):
            id = (int64_t)f.value;
            break;
        case XS_TAG(2, XS_VARINT):
            at = (int64_t)f.value;
            break;
        case XS_TAG(5, XS_VARINT): /* num_occurrences: the other side of offset's oneof */
            at = 0;
            break;
        case XS_TAG(3, XS_VARINT):
            lasts = (int64_t)f.value;
            break;
        case XS_TAG(4, XS_BYTES): {
            xs_cursor inner = xs_inside(c, &f);
            xs_stat stat;
            if ((wrong = xs_read_stat(&inner, &stat))) return xs_failed(c, &inner, wrong);
            seen[(uint64_t)stat.key % XS_SEEN]++;
            if (sums && stat.key == sums->key) {
                has = 1;
                value = xs_integer(&stat);
            }
            break;
        }
        default:
            break;
        }
    }
    if (has) xs_add(sums, id, value);
    *metadata_id = id;
    *offset = at;
    *duration = lasts;
    return XS_OK;
}

/* Reads a line's own fields and counts its events without looking into them. The place of every `stride`-th
   event goes to `marks` while there is room. */
static int xs_read_line(xs_cursor *c, xs_line *line, int64_t stride, const uint8_t **marks, int64_t room) {
    xs_field f = {0};
    memset(line, 0, sizeof *line);
    while (c->at < c->end) {
        const uint8_t *before = c->at;
        int wrong = xs_next(c, &f);
        if (wrong) return wrong;
        switch (f.tag) {
        case XS_TAG(4, XS_BYTES):
            if (line->events % stride == 0 && line->events / stride < room) marks[line->events / stride] = before;
            line->events++;
            break;
        case XS_TAG(1, XS_VARINT):
            line->id = (int64_t)f.value;
            break;
        case XS_TAG(3, XS_VARINT):
            line->timestamp_ns = (int64_t)f.value;
            break;
        case XS_TAG(2, XS_BYTES):
            line->name.start = f.start;
            line->name.end = f.end;
            break;
        case XS_TAG(11, XS_BYTES):
            line->display_name.start = f.start;
            line->display_name.end = f.end;
            break;
        default:
            break;
        }
    }
    return XS_OK;
}

/* Reads `count` events from here on into the three columns; `sums` may be NULL. */
static int xs_read_events(xs_cursor *c, int64_t count, int64_t *metadata_id, int64_t *offset, int64_t *duration,
                          int64_t *seen, xs_sums *sums) {
    xs_field f = {0};
    for (int64_t row = 0; row < count && c->at < c->end;) {
        int wrong = xs_next(c, &f);
        if (wrong) return wrong;
        if (f.tag != XS_TAG(4, XS_BYTES)) continue;
        xs_cursor inner = xs_inside(c, &f);
        wrong = xs_read_event(&inner, metadata_id + row, offset + row, duration + row, seen, sums);
        if (wrong) return xs_failed(c, &inner, wrong);
        row++;
    }
    return XS_OK;
}

static void xs_want(xs_sink *sink, const int64_t *keys, int64_t count) {
    sink->wanted = keys;
    sink->wanted_count = count;
    memset(sink->wanted_low, 0, sizeof sink->wanted_low);
    for (int64_t i = 0; i < count; i++) sink->wanted_low[(uint64_t)keys[i] % XS_SEEN] = 1;
}

static inline int xs_wanted(const xs_sink *sink, int64_t key) {
    if (!sink->wanted) return 1;
    if (!sink->wanted_low[(uint64_t)key % XS_SEEN]) return 0;
    for (int64_t i = 0; i < sink->wanted_count; i++)
        if (sink->wanted[i] == key) return 1;
    return 0;
}

static inline void xs_put(xs_sink *sink, int64_t row, const xs_stat *stat) {
    int64_t at = sink->count++;
    if (at >= sink->room) return;
    int is_text = stat->kind == 5 || stat->kind == 6;
    sink->row[at] = row;
    sink->key[at] = stat->key;
    sink->kind[at] = (uint8_t)stat->kind;
    sink->bits[at] = is_text ? (uint64_t)(stat->start - sink->base) : stat->value;
    sink->length[at] = is_text ? stat->end - stat->start : 0;
}

/* Hands the one stat that is here to the sink. */
static int xs_stat_alone(xs_cursor *c, int64_t row, xs_sink *sink) {
    xs_stat stat;
    int wrong = xs_read_stat(c, &stat);
    if (!wrong && xs_wanted(sink, stat.key)) xs_put(sink, row, &stat);
    return wrong;
}

/* Hands every wanted stat of a message to the sink; stats are its fields of number `field`. */
static int xs_stats_of_message(xs_cursor *c, uint32_t field, int64_t row, xs_sink *sink) {
    xs_field f = {0};
    while (c->at < c->end) {
        int wrong = xs_next(c, &f);
        if (wrong) return wrong;
        if (f.tag != XS_TAG(field, XS_BYTES)) continue;
        xs_cursor inner = xs_inside(c, &f);
        xs_stat stat;
        if ((wrong = xs_read_stat(&inner, &stat))) return xs_failed(c, &inner, wrong);
        if (xs_wanted(sink, stat.key)) xs_put(sink, row, &stat);
    }
    return XS_OK;
}

static int xs_stats_of_line(xs_cursor *c, xs_sink *sink) {
    xs_field f = {0};
    int64_t row = 0;
    while (c->at < c->end) {
        int wrong = xs_next(c, &f);
        if (wrong) return wrong;
        if (f.tag != XS_TAG(4, XS_BYTES)) continue;
        xs_cursor inner = xs_inside(c, &f);
        if ((wrong = xs_stats_of_message(&inner, 4, row++, sink))) return xs_failed(c, &inner, wrong);
    }
    return XS_OK;
}

/* Stats of an entry of event_metadata; a value given in parts is one message. */
static int xs_stats_of_entry(xs_cursor *c, int64_t row, xs_sink *sink) {
    xs_field f = {0};
    while (c->at < c->end) {
        int wrong = xs_next(c, &f);
        if (wrong) return wrong;
        if (f.tag != XS_TAG(2, XS_BYTES)) continue;
        xs_cursor inner = xs_inside(c, &f);
        if ((wrong = xs_stats_of_message(&inner, 5, row, sink))) return xs_failed(c, &inner, wrong);
    }
    return XS_OK;
}

static int xs_check_varints(xs_cursor *c) {
    uint64_t ignored;
    while (c->at < c->end) {
        int wrong = xs_varint(c, &ignored);
        if (wrong) return wrong;
    }
    return XS_OK;
}

/* Names of an event's metadata (`is_event`) or a stat's; its stats are checked, not kept. */
static int xs_read_metadata(xs_cursor *c, int is_event, xs_entry *entry) {
    xs_field f = {0};
    while (c->at < c->end) {
        int wrong = xs_next(c, &f);
        if (wrong) return wrong;
        if (f.tag == XS_TAG(2, XS_BYTES)) {
            entry->name.start = f.start;
            entry->name.end = f.end;
        } else if (is_event && f.tag == XS_TAG(4, XS_BYTES)) {
            entry->display_name.start = f.start;
            entry->display_name.end = f.end;
        } else if (is_event && f.tag == XS_TAG(5, XS_BYTES)) {
            xs_cursor inner = xs_inside(c, &f);
            xs_stat stat;
            if ((wrong = xs_read_stat(&inner, &stat))) return xs_failed(c, &inner, wrong);
        } else if (is_event && f.tag == XS_TAG(6, XS_BYTES)) { /* child ids, packed */
            xs_cursor inner = xs_inside(c, &f);
            if ((wrong = xs_check_varints(&inner))) return xs_failed(c, &inner, wrong);
        }
    }
    return XS_OK;
}

/* An entry of one of a plane's two maps. As in the protobuf library, one with a field that is neither key nor
   value is checked and then counts as unknown: `is_known` says so. */
static int xs_read_entry(xs_cursor *c, int is_event, xs_entry *entry) {
    xs_field f = {0};
    memset(entry, 0, sizeof *entry);
    entry->is_known = 1;
    while (c->at < c->end) {
        int wrong = xs_next(c, &f);
        if (wrong) return wrong;
        if (f.tag == XS_TAG(1, XS_VARINT)) {
            entry->key = (int64_t)f.value;
        } else if (f.tag == XS_TAG(2, XS_BYTES)) {
            xs_cursor inner = xs_inside(c, &f);
            if ((wrong = xs_read_metadata(&inner, is_event, entry))) return xs_failed(c, &inner, wrong);
        } else {
            entry->is_known = 0;
        }
    }
    return XS_OK;
}

/* Lists a message's fields as rows of (field, wire type, value or start, end), at most `room` of them;
   `base` is where starts and ends count from. Gives the number of fields in `count`. */
static int xs_list_fields(xs_cursor *c, const uint8_t *base, int64_t *rows, int64_t room, int64_t *count) {
    xs_field f = {0};
    *count = 0;
    while (c->at < c->end) {
        int wrong = xs_next(c, &f);
        if (wrong) return wrong;
        if (*count < room) {
            int64_t *row = rows + 4 * *count;
            int is_bytes = (f.tag & 7) == XS_BYTES, is_varint = (f.tag & 7) == XS_VARINT;
            row[0] = f.tag >> 3;
            row[1] = f.tag & 7;
            row[2] = is_bytes ? f.start - base : is_varint ? (int64_t)f.value : 0;
            row[3] = is_bytes ? f.end - base : 0;
        }
        ++*count;
    }
    return XS_OK;
}

#endif
