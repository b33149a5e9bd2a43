// A document's elements and characters in order, by libxml2, whose headers lie in a folder that a module map cannot
// name.
#ifndef CXML_H
#define CXML_H

/// An attribute with its references resolved. The value is not terminated.
struct cxml_attribute {
  /// NULL if the name has no prefix.
  const char *prefix;
  const char *name;
  const char *value;
  long value_byte_count;
};

/// The events of a document. Texts are UTF-8 and valid during the call only.
struct cxml_handler {
  void *context;
  /// An element begins on `line`, counted from 1. Any result but 0 stops the reading.
  int (*began)(void *context, const char *prefix, const char *name, const struct cxml_attribute *attributes, long count, int line);
  void (*ended)(void *context);
  /// Characters of the innermost open element, in any number of pieces.
  void (*read)(void *context, const char *characters, long byte_count);
};

/// The result of the reading. `code`, one of libxml2's `xmlParserErrors`, and `line` describe the first error; 0
/// without one.
struct cxml_outcome {
  int is_well_formed;
  int code;
  int line;
};

/// Reads a document in UTF-8, regardless of the encoding that it declares. It reads no other file, and knows only the
/// entities that every document has. Any thread may call it.
struct cxml_outcome cxml_read(const char *bytes, int byte_count, const struct cxml_handler *handler);

#endif
