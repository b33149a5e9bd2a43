#ifndef CMESSAGEPACK_SHIM_H
#define CMESSAGEPACK_SHIM_H

#include <msgpack.h>

#endif
