/* SPDX-License-Identifier: Apache-2.0 */
/*
 * abort() in a box whose interpreter is PID 1. The kernel drops signals that an init does not
 * handle, so a failed assertion in native code would end as a segmentation fault. With this it is
 * reported as SIGABRT.
 */
#pragma once

#include <stdint.h>

#include "wire/frame.h"

/* The token is read when it happens: it belongs to the run that is being served then. */
void abort_report(const uint8_t *token);
