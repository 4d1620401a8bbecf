// SPDX-License-Identifier: Apache-2.0
// The functions of src/runner/node_addon.c.
'use strict';
const path = require('path');

process.dlopen(module, path.join(__dirname, '../../husk_node.node'));
