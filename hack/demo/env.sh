#!/bin/bash
# env.sh: `make -s demo-env`: the export lines for KUBECONFIG, PATH and DEMO_POSTGRES_URL of the demo.
exec "$(dirname "$0")/../cluster/env.sh"
