#ifndef CCJOSE_SHIM_H
#define CCJOSE_SHIM_H

#include <cjose/cjose.h>

#endif
