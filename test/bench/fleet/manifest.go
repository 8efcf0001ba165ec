package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// manifest writes a manifest of the control planes that do not exist yet.
func manifest(o options) (string, error) {
	file, err := os.CreateTemp("", "fleet-*.yaml")
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	for i := o.from; i < o.to; i++ {
		_, err := fmt.Fprintf(file, `---
apiVersion: coder.com/v1alpha1
kind: CoderControlPlane
metadata:
  name: plane-%04d
  namespace: %s
spec:
  replicas: 0
  extraEnv:
  - name: CODER_PG_CONNECTION_URL
    valueFrom:
      secretKeyRef: {name: database, key: url}
`, i, o.namespace)
		if err != nil {
			return "", err
		}
	}
	return file.Name(), nil
}

func kubectlApply(ctx context.Context, kubeconfig, file string) error {
	out, err := exec.CommandContext(ctx, "kubectl", "--kubeconfig", kubeconfig, "apply", "-f", file).CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("kubectl apply: %w: %s", err, lines[len(lines)-1])
	}
	return nil
}
