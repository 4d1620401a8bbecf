# SPDX-License-Identifier: Apache-2.0
# technique: 56
# held: a KeyboardInterrupt out of user code is a failure of that run, not of the runner
# expect: status=failed exit=130 error=KeyboardInterrupt
raise KeyboardInterrupt
