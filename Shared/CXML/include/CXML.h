// A document's elements and characters in their order, by libxml2. Its own headers lie in a folder that no module map of ours can name.
#ifndef CXML_H
#define CXML_H

/// An attribute as it is written, references resolved. The value is not terminated.
struct cxml_attribute {
  /// NULL: the name has no prefix.
  const char *prefix;
  const char *name;
  const char *value;
  long value_byte_count;
};

/// What happens in a document. Texts are UTF-8 and gone after the call.
struct cxml_handler {
  void *context;
  /// An element begins on `line` (the first is 1). Anything but 0 ends the reading.
  int (*began)(void *context, const char *prefix, const char *name, const struct cxml_attribute *attributes, long count, int line);
  void (*ended)(void *context);
  /// Characters of the element that began last and has not ended, in any number of pieces.
  void (*read)(void *context, const char *characters, long byte_count);
};

/// How the reading ended. `code`, one of libxml2's `xmlParserErrors`, and `line` tell of the first error, 0 without one.
struct cxml_outcome {
  int is_well_formed;
  int code;
  int line;
};

/// Reads a document in UTF-8, whatever encoding it declares. Nothing else is read for it: of entities only those are known that every document has.
/// Any thread.
struct cxml_outcome cxml_read(const char *bytes, int byte_count, const struct cxml_handler *handler);

#endif
