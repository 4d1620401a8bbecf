# SPDX-License-Identifier: Apache-2.0
# technique: 56 S6
# held: os._exit past the runner is reported with its true exit code
# expect: status=failed exit=42 error=none
# cause: exit
import os

os._exit(42)
