/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Id maps: which host ids a user namespace consists of.
 *
 * The host ids from IDMAP_FIRST on are cut into wards of 64 blocks. A launcher leases a run of
 * wards for each zygote (launcher/lease.h); block 0 of the run is the zygote's own, each box gets
 * one further block of IDMAP_BLOCK ids. No map ever names host id 0 unless husk itself is not
 * root.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define IDMAP_BLOCK 65536u
#define IDMAP_WARD_BLOCKS 64u
#define IDMAP_FIRST ((uint64_t)0x80000000) /* above the ranges of subuid files and of systemd */
#define IDMAP_WARDS 448u                   /* up to 0xf0000000, clear of the ids near -1 */

/* First host id of a ward. */
uint64_t idmap_ward(uint32_t index);

/*
 * Maps a zygote's namespace: ids from 0 onto its leased wards, or onto one id. Called by the
 * launcher.
 */
int idmap_write_zygote(pid_t pid, uint64_t first, uint64_t count, struct err *e);

/* Maps a namespace below a zygote's first one: the same ids, from 0 on. */
int idmap_write_same(pid_t pid, uint64_t count, struct err *e);

/*
 * Maps a box's namespace onto a block of the zygote's. Called by the zygote: the kernel takes a
 * map only from the namespace itself or its parent. block 0: only the box's user, onto the
 * zygote's id 0.
 */
int idmap_write_box(pid_t pid, uint32_t block, uint32_t box_uid, struct err *e);

/*
 * A user namespace (owned descriptor) that shows one host owner as another host id, for id-mapped
 * mounts.
 */
int idmap_userns(uint32_t uid, uint32_t gid, uint64_t to, struct err *e);
