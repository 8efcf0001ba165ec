// Command testcluster runs a test command together with the etcd and kube-apiserver that all
// packages with kubetest.Shared use:
//
//	testcluster COMMAND [ARGUMENT...]
//
// The command starts at once, because it compiles first; the tests wait for the servers. The
// servers stop when the command ends. testcluster returns the exit code of the command.
// KUBEBUILDER_ASSETS is the directory with the programs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

func main() {
	// Without a logger controller-runtime prints a stack trace after 30 seconds.
	log.SetLogger(logr.Discard())
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(command []string) (code int, err error) {
	if len(command) == 0 {
		return 2, errors.New("usage: testcluster COMMAND [ARGUMENT...]")
	}
	dir, err := os.MkdirTemp("", "coder-k8s-testcluster")
	if err != nil {
		return 1, fmt.Errorf("making a directory for the kubeconfig: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	kubeconfig := filepath.Join(dir, "kubeconfig")

	// A signal stops the command, and then the servers.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// The command and its tests get the detectors, which kubetest.Environment removes for the servers.
	environment := append(os.Environ(), kubetest.SharedVariable+"="+kubeconfig)
	stopServers := startServers(kubeconfig)
	defer func() { err = errors.Join(err, stopServers()) }()

	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = environment
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 1, fmt.Errorf("running %s: %w", command[0], err)
	}
	return 0, nil
}

// startServers starts etcd and kube-apiserver in the background. The returned function waits until
// they have started, and stops them.
func startServers(kubeconfig string) (stop func() error) {
	server := kubetest.Environment()
	// The default range has only 254 addresses, and tests do not delete their Services.
	server.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/16")
	started := make(chan error, 1)
	go func() {
		_, err := server.Start()
		content := server.KubeConfig
		if err != nil {
			err = fmt.Errorf("starting etcd and kube-apiserver: %w", err)
			content = []byte(kubetest.SharedFailure + err.Error() + "\n")
		}
		started <- errors.Join(err, write(kubeconfig, content))
	}()
	return func() error {
		err := <-started
		// If kube-apiserver did not start, etcd may still run.
		if stopping := server.Stop(); stopping != nil {
			err = errors.Join(err, fmt.Errorf("stopping etcd and kube-apiserver: %w", stopping))
		}
		return err
	}
}

// write creates a file atomically.
func write(file string, content []byte) error {
	if err := os.WriteFile(file+".new", content, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}
