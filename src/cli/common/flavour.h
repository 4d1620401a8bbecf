/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differences between husk and rayai. Commands of both are compiled once for each; rayai with
 * -DRAYAI.
 */
#pragma once

#ifdef RAYAI
#    define PROGRAM "rayai"
#    define PACKAGE "rayai" /* imported by new projects */
#    define UP_COMMAND "up" /* serves the agents of a project */
#    define UP_USAGE                                                                               \
        "rayai up [PROJECT] [options] [settings of husk up]\n"                                     \
        "rayai mcp up [PROJECT] [options] [settings of husk up]"
#else
#    define PROGRAM "husk"
#    define PACKAGE "husk"
#    define UP_COMMAND "agents up"
#    define UP_USAGE "husk agents up [PROJECT] [options] [settings of husk up]"
#endif
