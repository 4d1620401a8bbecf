/* SPDX-License-Identifier: Apache-2.0 */
/* /workspace/se: lists of files as this dialect shows them. */
#pragma once

#include "api/files/file_list.h"

/*
 * [{filename, size, type, modified_at}]; whatever is no directory counts as a file, as in the
 * original.
 */
json_t *se_files_json(const struct file_list *list);

/* Writes text as a file, with its directories. -1: answered, and the work has ended. */
int se_write_text(struct file_work *w, const char *path, const json_t *text, uint32_t mode);
