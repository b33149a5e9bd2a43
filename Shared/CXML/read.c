#include "CXML.h"

#include <libxml/parser.h>
#include <stdlib.h>
#include <string.h>

struct reading {
  const struct cxml_handler *handler;
  xmlParserCtxtPtr parser;
  struct cxml_outcome outcome;
  int is_stopped;
};

static void stop(struct reading *reading) {
  reading->is_stopped = 1;
  xmlStopParser(reading->parser);
}

static void element_began(void *data, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri, int namespace_count, const xmlChar **namespaces,
                          int count, int default_count, const xmlChar **attributes) {
  (void)uri, (void)namespace_count, (void)namespaces, (void)default_count;
  struct reading *reading = data;
  struct cxml_attribute *list = count > 0 ? calloc(count, sizeof *list) : NULL;
  if (count > 0 && !list) return stop(reading);
  // libxml2 gives five texts per attribute: name, prefix, the prefix's URI, the value's start and its end.
  for (int i = 0; i < count; i++, attributes += 5)
    list[i] = (struct cxml_attribute){(const char *)attributes[1], (const char *)attributes[0], (const char *)attributes[3], attributes[4] - attributes[3]};
  int line = reading->parser->input ? reading->parser->input->line : 0;
  if (reading->handler->began(reading->handler->context, (const char *)prefix, (const char *)name, list, count, line) != 0) stop(reading);
  free(list);
}

static void element_ended(void *data, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri) {
  (void)name, (void)prefix, (void)uri;
  struct reading *reading = data;
  if (!reading->is_stopped) reading->handler->ended(reading->handler->context);
}

static void characters_read(void *data, const xmlChar *characters, int count) {
  struct reading *reading = data;
  if (!reading->is_stopped) reading->handler->read(reading->handler->context, (const char *)characters, count);
}

static void error_met(void *data, xmlErrorPtr error) {
  struct reading *reading = data;
  if (reading->outcome.code || error->level < XML_ERR_FATAL) return;
  reading->outcome.code = error->code;
  reading->outcome.line = error->line;
}

struct cxml_outcome cxml_read(const char *bytes, int byte_count, const struct cxml_handler *handler) {
  xmlInitParser();
  struct reading reading = {.handler = handler};
  xmlSAXHandler events = {
      .initialized = XML_SAX2_MAGIC,
      .startElementNs = element_began,
      .endElementNs = element_ended,
      .characters = characters_read,
      // One handler for both kinds: otherwise libxml2 guesses which spaces carry no meaning.
      .ignorableWhitespace = characters_read,
      .cdataBlock = characters_read,
      .serror = error_met,
  };
  reading.parser = xmlNewParserCtxt();
  if (!reading.parser) return (struct cxml_outcome){.code = XML_ERR_NO_MEMORY};
  *reading.parser->sax = events;
  reading.parser->userData = &reading;
  // Without handlers for them, libxml2 builds no document and declares no entities. Without XML_PARSE_NOENT, `&amp;`
  // would arrive as `&#38;` in values.
  xmlCtxtReadMemory(reading.parser, bytes, byte_count, NULL, "UTF-8", XML_PARSE_NONET | XML_PARSE_NOENT);
  reading.outcome.is_well_formed = !reading.is_stopped && reading.parser->wellFormed;
  xmlFreeParserCtxt(reading.parser);
  return reading.outcome;
}
