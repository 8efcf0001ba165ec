# failures.awk: reads what "go test -v" printed, and prints again what each failed test
# said last and then the runner's closing lines. So the end of a long log says why. What
# several runs printed, one after the other, is read as one.
/^=== (RUN|NAME|CONT|PAUSE) / { current = $3; closing = 0 }
/^--- (PASS|FAIL|SKIP): / { closing = 1 }
closing { summary[++lines] = $0; if ($1 == "---" && $2 == "FAIL:") failed[++failures] = $3; next }
current != "" && !/^=== / { said[current, ++count[current]] = $0 }
END {
  for (i = 1; i <= failures; i++) {
    name = failed[i]
    if (!(name in count)) continue
    printf "What %s printed last:\n", name
    from = count[name] - 14
    for (n = (from > 1 ? from : 1); n <= count[name]; n++) print said[name, n]
  }
  for (i = 1; i <= lines; i++) print summary[i]
}
