/* SPDX-License-Identifier: Apache-2.0 */
/* What fake_backend.c (the table) and fake_guest.c (processes of guests, as fibers) share. */
#pragma once

#include "base/fiber.h"
#include "fake_backend.h"
#include "wire/frame.h"

#define FAKE_EVENTS_MAX 256

struct fake_guest;

/* A process of a guest: its first one, or a context of a notebook. */
struct fake_peer {
    struct fake_peer *next; /* of its guest */
    struct fake_guest *guest;
    struct fiber *fiber;
    int control; /* their end, as are those below */
    int in;
    int out;
    int err;
    uint32_t pid;
    bool is_running;  /* code */
    bool interrupted; /* SIGINT came while it ran */
    bool killed;
};

struct fake_guest {
    struct fake_guest *next;
    struct fake *fake;
    uint32_t id;
    uint32_t template_id;
    struct fake_peer *peers; /* the first process is the last in this list */
    uint32_t next_pid;
    bool is_broken; /* says FAILED instead of READY */
    bool has_ended;
};

struct fake {
    struct backend backend;
    struct launcher_facts facts;
    int signal; /* eventfd: readable while there are events */
    struct backend_event events[FAKE_EVENTS_MAX];
    size_t n_events;
    struct fake_guest *guests;
    uint32_t next_guest;
    uint32_t template; /* that is open; 0: none */
    unsigned opened;
    unsigned made;
    unsigned lost_births;
    unsigned broken_births;
    unsigned fibers;
};

/* Starts the first process of a guest. */
void fake_peer_start(struct fake_guest *g, const int ends[BACKEND_ENDS]);
/* The guest's processes end; reports it if kind of end >= 0. */
void fake_guest_end(struct fake_guest *g, int end, int wait_status);
void fake_guest_forget(struct fake_guest *g); /* once its last process is gone */
