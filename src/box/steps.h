/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The single isolation steps that setup.c puts in order. Each returns 0, or -1 and *e; none fails
 * open.
 */
#pragma once

#include "box/setup.h"

int step_cgroup(struct box_setup *s, struct err *e);
int step_memory(struct box_setup *s, struct err *e);
int step_id_maps(struct box_setup *s, struct err *e);
int step_quotas(struct box_setup *s, struct err *e);
int step_identity(struct box_setup *s, struct err *e);
int step_disk(struct box_setup *s, struct err *e);
int step_proc(struct box_setup *s, struct err *e);
int step_proc_masks(struct box_setup *s, struct err *e);
int step_devpts(struct box_setup *s, struct err *e);
int step_rlimits(struct box_setup *s, struct err *e);
int step_bounding(struct box_setup *s, struct err *e);
int step_ids(struct box_setup *s, struct err *e);
int step_caps(struct box_setup *s, struct err *e);
int step_landlock(struct box_setup *s, struct err *e);
int step_descriptors(struct box_setup *s, struct err *e);
int step_seccomp(struct box_setup *s, struct err *e);
