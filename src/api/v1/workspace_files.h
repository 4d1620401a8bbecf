/* SPDX-License-Identifier: Apache-2.0 */
/* What workspace_files.c and archive.c share. */
#pragma once

#include "api/files/file_work.h"

/* Work on the files of the session in the call's path. -1: answered. */
int v1_file_work_begin(struct file_work *w, struct api_call *call);

/* The parameter `path` of a directory: "" for the workspace itself. */
const char *v1_directory(const struct api_call *call);
