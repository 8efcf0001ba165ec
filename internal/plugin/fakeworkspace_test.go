package plugin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// inside is a workspace whose commands run on this machine, with a directory as home.
type inside struct {
	home string
	// cut ends each session with an error after this number of bytes of output, if it is not 0.
	cut int64
	// path is the PATH of the commands. Empty means the PATH of this process.
	path string
	// asked are the queries of the sessions.
	asked []string
}

func newInside(t *testing.T, api *fakeAPI, name string) *inside {
	t.Helper()
	i := &inside{home: t.TempDir()}
	api.answer("POST "+inCoder+"/coderworkspaces/"+name+"/exec", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		i.asked = append(i.asked, r.URL.RawQuery)
		on := func(name string) bool { return query.Get(name) == "true" }
		remotecommand.ServeExec(w, r, i, "", "", "", query["command"],
			&remotecommand.Options{Stdin: on("stdin"), Stdout: on("stdout"), Stderr: on("stderr"), TTY: on("tty")},
			time.Minute, time.Minute, []string{remotecommand.StreamProtocolV4Name})
	})
	return i
}

// ExecInContainer implements remotecommand.Executor.
func (i *inside) ExecInContainer(
	ctx context.Context, _, _, _ string, args []string, in io.Reader, out, errs io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	if len(args) == 0 {
		return nil
	}
	program, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, args[1:]...)
	cmd.Dir, cmd.Env = i.home, []string{"HOME=" + i.home, "PATH=" + os.Getenv("PATH")}
	if i.path != "" {
		cmd.Env[1] = "PATH=" + i.path
	}
	cmd.Stderr = errs
	if in != nil {
		cmd.Stdin = in
	}
	if i.cut > 0 {
		output, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		_, _ = io.CopyN(out, output, i.cut)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return errors.New("the connection to the agent ended before the command did")
	}
	cmd.Stdout = out
	// Otherwise Wait would wait for the input, which may not end.
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return nil
}
