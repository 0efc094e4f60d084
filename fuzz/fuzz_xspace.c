/* Fuzzes the walks of tpuprof/decode/_xspace.h the way xplane_walk.py drives them: libFuzzer entry point. */
#include <stdlib.h>

#include "../tpuprof/decode/_xspace.h"

static void require(int holds) {
    if (!holds) abort();
}

static xs_cursor range(const uint8_t *start, const uint8_t *end, int depth) {
    xs_cursor cursor = {start, end, depth};
    return cursor;
}

/* Touches a text, so that the sanitizer sees one that lies outside the input. */
static unsigned touch(const xs_text *text) {
    unsigned sum = 0;
    for (const uint8_t *at = text->start; at < text->end; at++) sum += *at;
    return sum;
}

static void fill(xs_sink *sink) {
    size_t rows = (size_t)sink->count;
    sink->row = malloc(rows * sizeof *sink->row + 1);
    sink->key = malloc(rows * sizeof *sink->key + 1);
    sink->kind = malloc(rows * sizeof *sink->kind + 1);
    sink->bits = malloc(rows * sizeof *sink->bits + 1);
    sink->length = malloc(rows * sizeof *sink->length + 1);
    sink->room = sink->count;
    sink->count = 0;
}

static void finish(xs_sink *sink) {
    for (int64_t at = 0; at < sink->count; at++)
        if (sink->kind[at] == 5 || sink->kind[at] == 6) {
            xs_text text = {sink->base + sink->bits[at], sink->base + sink->bits[at] + sink->length[at]};
            touch(&text);
        }
    free(sink->row);
    free(sink->key);
    free(sink->kind);
    free(sink->bits);
    free(sink->length);
}

static void line_stats(const uint8_t *base, const uint8_t *start, const uint8_t *end, const int64_t *keys,
                       int64_t count, const int64_t *seen) {
    xs_sink sink = {0};
    sink.base = base;
    xs_want(&sink, keys, count);
    xs_cursor cursor = range(start, end, 2);
    require(xs_stats_of_line(&cursor, &sink) == XS_OK); /* the events were read before */
    int64_t rows = sink.count, most = 0;
    for (int low = 0; low < XS_SEEN; low++) most += sink.wanted_low[low] ? seen[low] : 0;
    require(rows <= most);
    fill(&sink);
    cursor = range(start, end, 2);
    require(xs_stats_of_line(&cursor, &sink) == XS_OK);
    require(sink.count == rows);
    finish(&sink);
}

static int walk_line(const uint8_t *base, const uint8_t *start, const uint8_t *end) {
    enum { STRIDE = 3, PLACES = 5 };
    xs_line line;
    int64_t room = (end - start) / 2 / STRIDE + 1;
    const uint8_t **marks = malloc((size_t)room * sizeof *marks);
    xs_cursor cursor = range(start, end, 2);
    int wrong = xs_read_line(&cursor, &line, STRIDE, marks, room);
    if (!wrong) {
        touch(&line.name);
        touch(&line.display_name);
        require((line.events + STRIDE - 1) / STRIDE <= room);
    }
    int64_t seen[XS_SEEN] = {0};
    int64_t total[PLACES] = {0};
    uint8_t negative[PLACES] = {0};
    xs_sums sums = {2, total, negative, PLACES - 1, 0};
    for (int64_t first = 0; !wrong && first < line.events; first += STRIDE) {
        int64_t count = line.events - first < STRIDE ? line.events - first : STRIDE;
        size_t bytes = (size_t)count * sizeof(int64_t);
        int64_t *id = malloc(bytes), *offset = malloc(bytes), *duration = malloc(bytes);
        cursor = range(marks[first / STRIDE], end, 2);
        wrong = xs_read_events(&cursor, count, id, offset, duration, seen, first ? &sums : NULL);
        free(id);
        free(offset);
        free(duration);
    }
    require(sums.having <= (line.events < STRIDE ? 0 : line.events - STRIDE) || wrong);
    if (!wrong) {
        const int64_t keys[] = {1, 2, 3, 257, -1};
        line_stats(base, start, end, keys, 5, seen);
        line_stats(base, start, end, keys, 0, seen);
    }
    free(marks);
    return wrong;
}

static int walk_entry(const uint8_t *base, const uint8_t *start, const uint8_t *end, int is_event) {
    xs_entry entry;
    xs_cursor cursor = range(start, end, 2);
    int wrong = xs_read_entry(&cursor, is_event, &entry);
    if (wrong) return wrong;
    touch(&entry.name);
    touch(&entry.display_name);
    if (!is_event) return XS_OK;
    xs_sink sink = {0};
    sink.base = base;
    cursor = range(start, end, 2);
    require(xs_stats_of_entry(&cursor, 0, &sink) == XS_OK);
    fill(&sink);
    cursor = range(start, end, 2);
    require(xs_stats_of_entry(&cursor, 0, &sink) == XS_OK);
    finish(&sink);
    return XS_OK;
}

static int walk_stat(const uint8_t *base, const uint8_t *start, const uint8_t *end) {
    xs_sink sink = {0};
    sink.base = base;
    xs_cursor cursor = range(start, end, 2);
    int wrong = xs_stat_alone(&cursor, 0, &sink);
    if (wrong) return wrong;
    fill(&sink);
    cursor = range(start, end, 2);
    require(xs_stat_alone(&cursor, 0, &sink) == XS_OK);
    finish(&sink);
    return XS_OK;
}

static int64_t *list(const uint8_t *base, const uint8_t *start, const uint8_t *end, int depth, int64_t *count) {
    xs_cursor cursor = range(start, end, depth);
    if (xs_list_fields(&cursor, base, NULL, 0, count)) return NULL;
    int64_t room = *count;
    int64_t *rows = malloc((size_t)room * 4 * sizeof *rows + 1);
    cursor = range(start, end, depth);
    require(xs_list_fields(&cursor, base, rows, room, count) == XS_OK && *count == room);
    return rows;
}

static int walk_plane(const uint8_t *base, const uint8_t *start, const uint8_t *end) {
    int64_t count;
    int64_t *rows = list(base, start, end, 1, &count);
    if (!rows) return XS_MALFORMED;
    int wrong = XS_OK;
    for (int64_t *row = rows; !wrong && row < rows + 4 * count; row += 4) {
        if (row[1] != XS_BYTES) continue;
        const uint8_t *from = base + row[2], *to = base + row[3];
        if (row[0] == 3) wrong = walk_line(base, from, to);
        if (row[0] == 4 || row[0] == 5) wrong = walk_entry(base, from, to, row[0] == 4);
        if (row[0] == 6) wrong = walk_stat(base, from, to);
    }
    free(rows);
    return wrong;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t count;
    const uint8_t *base = size ? data : (const uint8_t *)"";
    int64_t *rows = list(base, base, base + size, 0, &count);
    if (!rows) return 0;
    int wrong = XS_OK;
    for (int64_t *row = rows; !wrong && row < rows + 4 * count; row += 4)
        if (row[0] == 1 && row[1] == XS_BYTES) wrong = walk_plane(base, base + row[2], base + row[3]);
    free(rows);
    return 0;
}
