/* SPDX-License-Identifier: Apache-2.0 */
/* Reason phrases of the status codes that exist. */
#pragma once

const char *http_reason(int status); /* "Not Found"; "Unknown" for what is not listed */
