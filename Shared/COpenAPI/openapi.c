#include "COpenAPI.h"

static const unsigned char document[] = {
#embed "../../Services/openapi.json"
};
const long aquifer_openapi_byte_count = sizeof document;

const unsigned char *aquifer_openapi_start(void) { return document; }
