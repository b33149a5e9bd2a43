// simdjson's DOM, flattened into an array of nodes. This file makes the checks that simdjson leaves to its callers:
// duplicate keys, depth, integers beyond Int64, lone surrogates.
#include "CSimdJSON.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include <simdjson.h>

namespace {

using namespace simdjson;

/// The input length up to which a thread keeps its buffers (some 14 bytes per input byte) for its next document.
constexpr size_t kept_capacity = 1 << 20;
/// The size up to which objects are checked for duplicate keys pair by pair; larger ones are sorted.
constexpr size_t pairwise_limit = 8;

csj_outcome outcome_of(error_code error) {
  switch (error) {
  case SUCCESS: return csj_outcome_ok;
  case EMPTY: return csj_outcome_empty;
  case CAPACITY: return csj_outcome_too_large;
  case MEMALLOC: return csj_outcome_out_of_memory;
  case DEPTH_ERROR: return csj_outcome_too_deep;
  case STRING_ERROR: return csj_outcome_bad_string;
  case T_ATOM_ERROR:
  case F_ATOM_ERROR:
  case N_ATOM_ERROR: return csj_outcome_bad_literal;
  case NUMBER_ERROR: return csj_outcome_bad_number;
  case NUMBER_OUT_OF_RANGE: return csj_outcome_integer_out_of_range;
  case UTF8_ERROR: return csj_outcome_bad_utf8;
  case UNESCAPED_CHARS: return csj_outcome_control_character;
  case UNCLOSED_STRING: return csj_outcome_unclosed_string;
  default: return csj_outcome_malformed;
  }
}

/// The buffers that a thread keeps between documents.
struct workspace {
  dom::parser parser;
  std::vector<uint8_t> input;
  std::vector<csj_node> nodes;
  std::vector<std::string_view> keys;

  csj_result parse(const uint8_t *bytes, size_t length, size_t maximum_depth);

private:
  size_t depth_limit = 0;
  const uint8_t *strings = nullptr;
  size_t string_end = 0;
  std::string_view duplicate;

  csj_outcome flatten(dom::element element, size_t depth);
  csj_outcome flatten_object(dom::object object, size_t depth);
  csj_outcome flatten_array(dom::array array, size_t depth);
  void push(csj_kind kind, uint64_t bits) { nodes.push_back({kind, static_cast<uint32_t>(nodes.size() + 1), bits}); }
  void push_string(std::string_view text);
  bool has_duplicate(size_t first_key);
  bool take(csj_document &document) const;
};

void workspace::push_string(std::string_view text) {
  size_t offset = reinterpret_cast<const uint8_t *>(text.data()) - strings;
  string_end = std::max(string_end, offset + text.size());
  push(csj_kind_string, static_cast<uint64_t>(text.size()) << 32 | offset);
}

csj_outcome workspace::flatten(dom::element element, size_t depth) {
  switch (element.type()) {
  case dom::element_type::OBJECT: return flatten_object(element.get_object().value_unsafe(), depth + 1);
  case dom::element_type::ARRAY: return flatten_array(element.get_array().value_unsafe(), depth + 1);
  case dom::element_type::STRING: push_string(element.get_string().value_unsafe()); return csj_outcome_ok;
  case dom::element_type::INT64: push(csj_kind_integer, static_cast<uint64_t>(element.get_int64().value_unsafe())); return csj_outcome_ok;
  case dom::element_type::UINT64: return csj_outcome_integer_out_of_range;
  case dom::element_type::DOUBLE: {
    double value = element.get_double().value_unsafe();
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    push(csj_kind_double, bits);
    return csj_outcome_ok;
  }
  case dom::element_type::BOOL: push(csj_kind_bool, element.get_bool().value_unsafe()); return csj_outcome_ok;
  case dom::element_type::NULL_VALUE: push(csj_kind_null, 0); return csj_outcome_ok;
  }
  return csj_outcome_malformed;
}

csj_outcome workspace::flatten_object(dom::object object, size_t depth) {
  if (depth > depth_limit) return csj_outcome_too_deep;
  size_t self = nodes.size();
  size_t first_key = keys.size();
  push(csj_kind_object, 0);
  for (auto member : object) {
    keys.push_back(member.key);
    push_string(member.key);
    csj_outcome outcome = flatten(member.value, depth);
    if (outcome != csj_outcome_ok) return outcome;
  }
  nodes[self].next = static_cast<uint32_t>(nodes.size());
  nodes[self].bits = keys.size() - first_key;
  bool is_duplicated = has_duplicate(first_key);
  keys.resize(first_key);
  return is_duplicated ? csj_outcome_duplicate_key : csj_outcome_ok;
}

csj_outcome workspace::flatten_array(dom::array array, size_t depth) {
  if (depth > depth_limit) return csj_outcome_too_deep;
  size_t self = nodes.size();
  uint64_t count = 0;
  push(csj_kind_array, 0);
  for (auto element : array) {
    count += 1;
    csj_outcome outcome = flatten(element, depth);
    if (outcome != csj_outcome_ok) return outcome;
  }
  nodes[self].next = static_cast<uint32_t>(nodes.size());
  nodes[self].bits = count;
  return csj_outcome_ok;
}

/// Searches the keys of the object that was just read.
bool workspace::has_duplicate(size_t first_key) {
  auto begin = keys.begin() + static_cast<std::ptrdiff_t>(first_key);
  auto found = keys.end();
  if (keys.size() - first_key <= pairwise_limit) {
    for (auto key = begin; key != keys.end() && found == keys.end(); ++key)
      found = std::find(key + 1, keys.end(), *key);
  } else {
    std::sort(begin, keys.end());
    found = std::adjacent_find(begin, keys.end());
  }
  if (found == keys.end()) return false;
  duplicate = *found;
  return true;
}

/// Copies nodes and strings into one block that outlives the parser.
bool workspace::take(csj_document &document) const {
  size_t node_bytes = nodes.size() * sizeof(csj_node);
  uint8_t *block = static_cast<uint8_t *>(malloc(node_bytes + string_end));
  if (block == nullptr) return false;
  memcpy(block, nodes.data(), node_bytes);
  if (string_end > 0) memcpy(block + node_bytes, strings, string_end);
  document = {reinterpret_cast<const csj_node *>(block), block + node_bytes};
  return true;
}

csj_result workspace::parse(const uint8_t *bytes, size_t length, size_t maximum_depth) {
  csj_result result = {};
  if (length >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) {
    result.outcome = csj_outcome_byte_order_mark;
    return result;
  }
  if (length > UINT32_MAX - SIMDJSON_PADDING) {
    result.outcome = csj_outcome_too_large;
    return result;
  }
  if (input.size() < length + SIMDJSON_PADDING) input.resize(length + SIMDJSON_PADDING);
  if (length > 0) memcpy(input.data(), bytes, length);
  memset(input.data() + length, 0, SIMDJSON_PADDING);
  nodes.clear();
  keys.clear();
  depth_limit = maximum_depth;
  string_end = 0;
  dom::element root;
  error_code error = parser.parse(input.data(), length, false).get(root);
  strings = parser.doc.string_buf.get();
  result.outcome = error ? outcome_of(error) : flatten(root, 0);
  if (result.outcome == csj_outcome_duplicate_key) {
    result.key = reinterpret_cast<const uint8_t *>(duplicate.data());
    result.key_length = duplicate.size();
  }
  // simdjson 3.0 turns an escaped lone surrogate into three bytes that are not UTF-8. Input without a backslash is
  // checked already.
  if (result.outcome == csj_outcome_ok && memchr(bytes, '\\', length) != nullptr) {
    for (const csj_node &node : nodes) {
      if (node.kind == csj_kind_string && !validate_utf8(reinterpret_cast<const char *>(strings) + (node.bits & UINT32_MAX), node.bits >> 32)) {
        result.outcome = csj_outcome_bad_string;
        return result;
      }
    }
  }
  if (result.outcome == csj_outcome_ok && !take(result.document)) result.outcome = csj_outcome_out_of_memory;
  return result;
}

} // namespace

csj_result csj_parse(const uint8_t *bytes, size_t length, size_t maximum_depth) {
  thread_local std::unique_ptr<workspace> kept;
  // The workspace of a large document lives until the next parse, because the result may point at a key inside it.
  thread_local std::unique_ptr<workspace> large;
  large.reset();
  auto &chosen = length > kept_capacity ? large : kept;
  if (!chosen) chosen = std::make_unique<workspace>();
  csj_result result = chosen->parse(bytes, length, maximum_depth);
  if (result.outcome != csj_outcome_duplicate_key) large.reset();
  return result;
}

void csj_free(csj_document document) { free(const_cast<csj_node *>(document.nodes)); }
