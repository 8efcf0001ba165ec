#!/bin/sh
# broken-coder.sh: in the tests of upgrades, a Coder whose server ends at once.
if [ "$1" = version ]; then echo "Coder v2.99.0"; exit; fi
echo "error: this server does not start" >&2
exit 1
