// Copies text into JSON as far as nothing in it needs an escape, and checks UTF-8.
#include "CSimdJSON.h"

#include <cstring>

#include <simdjson.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace {

constexpr uint64_t ones = 0x0101010101010101;
constexpr uint64_t high_bits = 0x8080808080808080;

/// Marks the high bit of each byte that JSON wants escaped, the first byte lowest. Only the lowest mark is reliable.
uint64_t marks(uint64_t word) {
  uint64_t quotes = word ^ (ones * 0x22), backslashes = word ^ (ones * 0x5c);
  // A byte's high bit becomes set when the byte underflows, so was below 0x20 or equal. Bytes that had the bit already
  // are UTF-8 and do not count. Borrows spread upwards only, so the lowest mark is always true.
  uint64_t controls = (word - ones * 0x20) & ~word;
  return (controls | ((quotes - ones) & ~quotes) | ((backslashes - ones) & ~backslashes)) & high_bits;
}

uint64_t load(const uint8_t *from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

} // namespace

csj_copied csj_copy_plain(uint8_t *to, const uint8_t *from, size_t length) {
  size_t place = 0;
  uint64_t high = 0;
#ifdef __SSE2__
  for (; place + 16 <= length; place += 16) {
    __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + place));
    __m128i controls = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block);
    __m128i quotes = _mm_cmpeq_epi8(block, _mm_set1_epi8(0x22));
    __m128i backslashes = _mm_cmpeq_epi8(block, _mm_set1_epi8(0x5c));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to + place), block);
    high |= static_cast<uint64_t>(_mm_movemask_epi8(block));
    if (int found = _mm_movemask_epi8(_mm_or_si128(controls, _mm_or_si128(quotes, backslashes))))
      return {place + static_cast<size_t>(__builtin_ctz(static_cast<unsigned>(found))), high == 0};
  }
#endif
  for (; place + 8 <= length; place += 8) {
    uint64_t word = load(from + place);
    std::memcpy(to + place, from + place, 8);
    high |= word & high_bits;
    if (uint64_t found = marks(word))
      return {place + static_cast<size_t>(__builtin_ctzll(found)) / 8, high == 0};
  }
  if (place < length && length >= 8) {
    // The last eight bytes, some of them again: those are plain.
    uint64_t word = load(from + length - 8);
    std::memcpy(to + length - 8, from + length - 8, 8);
    high |= word & high_bits;
    uint64_t found = marks(word);
    return {found ? length - 8 + static_cast<size_t>(__builtin_ctzll(found)) / 8 : length, high == 0};
  }
  for (; place < length; place++) {
    uint8_t byte = from[place];
    if (byte < 0x20 || byte == 0x22 || byte == 0x5c)
      break;
    to[place] = byte;
    high |= byte & 0x80;
  }
  return {place, high == 0};
}

bool csj_is_utf8(const uint8_t *bytes, size_t length) {
  return simdjson::validate_utf8(reinterpret_cast<const char *>(bytes), length);
}
