#ifndef CLIBXML_SHIM_H
#define CLIBXML_SHIM_H

#include <libxml/parser.h>

#endif
