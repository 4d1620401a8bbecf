# SPDX-License-Identifier: Apache-2.0
# technique: 56
# held: SystemExit with a text is exit code 1 and the text on stderr, as in plain Python
# expect: status=failed exit=1 stderr~stopped
raise SystemExit("stopped")
