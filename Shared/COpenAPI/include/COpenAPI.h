// Services/openapi.json, in the program: whoever has a gateway has its description.
#ifndef COPENAPI_H
#define COPENAPI_H

/// The document's first byte; what follows is constant, too.
const unsigned char *aquifer_openapi_start(void);
extern const long aquifer_openapi_byte_count;

#endif
