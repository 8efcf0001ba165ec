# shellcheck shell=bash
# wait.sh: functions to apply a sample and wait for it, and to print diagnostics on failure; sourced by up.sh.
# shellcheck disable=SC2034
READY='{.status.conditions[?(@.type=="Ready")].status}'

# The conditions of an object, in one line.
says() { # file
  kubectl get -f "$1" -o 'jsonpath={.status.phase}{range .status.conditions[?(@.type=="Ready")]} {.reason}: {.message}{end}' 2>&1 | tail -n 1 | cut -c1-200
}

# sample FILE WHAT JSONPATH WANTED SECONDS: applies FILE and polls it, for not every one of these kinds has a watch.
sample() {
  local file="$1" what="$2" path="$3" wanted="$4" limit="$5" start=$SECONDS said=0
  # Discovery may lag behind an APIService that has just become available, and a webhook-less API needs no more patience.
  until_ok 30 "the API of $what" apply_to "$LOGS/apply.log" "$file" || { tail_of "$LOGS/apply.log"; diagnose "kubectl apply -f $file failed"; }
  until [ "$(kubectl get -f "$file" -o "jsonpath=$path" 2>/dev/null)" = "$wanted" ]; do
    [ $((SECONDS - start)) -lt "$limit" ] || diagnose "$what was not ready within $limit s: $(says "$file")"
    if [ $(((SECONDS - start) / 10)) -gt "$said" ]; then
      said=$(((SECONDS - start) / 10))
      step "  waiting for $what: $(says "$file")"
    fi
    sleep 0.5
  done
  step "$what is ready: $file"
}
apply_to() { kubectl apply -f "$2" >>"$1" 2>&1; }

# diagnose MESSAGE: prints diagnostics, and then fails with the message.
diagnose() {
  {
    echo "--- pods"
    kubectl get pods -A -o wide
    echo "--- newest events"
    kubectl get events -A --sort-by=.lastTimestamp | tail -n 15
    echo "--- the operator's log"
    kubectl -n coder-system logs deployment/coder-k8s --tail=30
    echo "--- Coder's log"
    kubectl -n coder logs deployment/coder --tail=15
  } 2>&1 | cut -c1-300 >&2 || true
  die "$1. The cluster stays for a look at it: eval \"\$(make -s demo-env)\"; make demo-down stops it"
}
