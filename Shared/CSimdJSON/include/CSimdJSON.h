// A parsed JSON document as one flat array of nodes that Swift reads without calling back into C++.
#ifndef CSIMDJSON_H
#define CSIMDJSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum __attribute__((enum_extensibility(closed))) {
  csj_kind_object = 0,
  csj_kind_array = 1,
  csj_kind_string = 2,
  csj_kind_integer = 3,
  csj_kind_double = 4,
  csj_kind_bool = 5,
  csj_kind_null = 6,
} csj_kind;

/// One value, in document order. Its children follow a container; those of an object are key, value, key, value …
typedef struct {
  csj_kind kind;
  /// The index of the first node after this value and its children.
  uint32_t next;
  /// string: the offset into the strings in the low half, the byte count in the high half. integer, bool: the value.
  /// double: its bits. Containers: the number of elements or members.
  uint64_t bits;
} csj_node;

/// One block of memory; `csj_free` frees it.
typedef struct {
  const csj_node *nodes;
  const uint8_t *strings;
} csj_document;

typedef enum __attribute__((enum_extensibility(closed))) {
  csj_outcome_ok = 0,
  csj_outcome_empty,
  csj_outcome_too_large,
  csj_outcome_malformed,
  csj_outcome_too_deep,
  csj_outcome_bad_string,
  csj_outcome_bad_literal,
  csj_outcome_bad_number,
  csj_outcome_integer_out_of_range,
  csj_outcome_bad_utf8,
  csj_outcome_byte_order_mark,
  csj_outcome_control_character,
  csj_outcome_unclosed_string,
  csj_outcome_duplicate_key,
  csj_outcome_out_of_memory,
} csj_outcome;

typedef struct {
  csj_outcome outcome;
  csj_document document;
  /// The key for csj_outcome_duplicate_key, valid until this thread parses again.
  const uint8_t *key;
  size_t key_length;
} csj_result;

/// Parses a whole document; `document` is set only with csj_outcome_ok. Copies `bytes`. Any thread may call it.
csj_result csj_parse(const uint8_t *bytes, size_t length, size_t maximum_depth);
void csj_free(csj_document document);

typedef struct {
  /// The number of bytes before the first one that JSON wants escaped.
  size_t length;
  /// False if any of these bytes is beyond ASCII; can be false for one behind them, too.
  bool is_ascii;
} csj_copied;

/// Copies text up to its first byte that JSON wants escaped. `to` has room for `length` bytes; those behind the copied
/// ones may change.
csj_copied csj_copy_plain(uint8_t *to, const uint8_t *from, size_t length);
bool csj_is_utf8(const uint8_t *bytes, size_t length);

#ifdef __cplusplus
}
#endif

#endif
