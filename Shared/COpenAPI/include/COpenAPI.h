// Embeds Services/openapi.json in the program, so that every gateway has the description of its API.
#ifndef COPENAPI_H
#define COPENAPI_H

/// The document's first byte; the document lasts as long as the program.
const unsigned char *aquifer_openapi_start(void);
extern const long aquifer_openapi_byte_count;

#endif
