#ifndef CMESSAGEPACK_SHIM_H
#define CMESSAGEPACK_SHIM_H

#include <msgpack.h>
#include <string.h>

// The packer passes its bytes to a callback. These functions write one value, or the header of one, straight into
// memory.

/// The most bytes that a header, or a value other than text and bytes, can take.
#define CMP_LONGEST 9

static inline int cmp_append(void *data, const char *bytes, size_t length) {
  uint8_t **end = (uint8_t **)data;
  memcpy(*end, bytes, length);
  *end += length;
  return 0;
}

#define CMP_PACK(name, parameter, call)                                                                                                \
  static inline size_t cmp_##name(uint8_t *_Nonnull out parameter) {                                                                   \
    uint8_t *end = out;                                                                                                                \
    msgpack_packer packer;                                                                                                             \
    msgpack_packer_init(&packer, &end, cmp_append);                                                                                    \
    call;                                                                                                                              \
    return (size_t)(end - out);                                                                                                        \
  }
#define CMP_WITH(type) , type value

CMP_PACK(nil, , msgpack_pack_nil(&packer))
CMP_PACK(bool, CMP_WITH(bool), value ? msgpack_pack_true(&packer) : msgpack_pack_false(&packer))
CMP_PACK(int64, CMP_WITH(int64_t), msgpack_pack_int64(&packer, value))
CMP_PACK(uint64, CMP_WITH(uint64_t), msgpack_pack_uint64(&packer, value))
CMP_PACK(double, CMP_WITH(double), msgpack_pack_double(&packer, value))
CMP_PACK(string_header, CMP_WITH(size_t), msgpack_pack_str(&packer, value))
CMP_PACK(bytes_header, CMP_WITH(size_t), msgpack_pack_bin(&packer, value))
CMP_PACK(array_header, CMP_WITH(size_t), msgpack_pack_array(&packer, value))
CMP_PACK(map_header, CMP_WITH(size_t), msgpack_pack_map(&packer, value))

#undef CMP_PACK
#undef CMP_WITH

#endif
