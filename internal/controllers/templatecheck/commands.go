package templatecheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	utilexec "k8s.io/utils/exec"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/agents"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

const (
	// keptOutput is how much output of a command is kept while it runs, and shownOutput how much of that is in the status.
	keptOutput, shownOutput = 16 << 10, 2 << 10
	// connectTimeout limits the connection to the agent, in addition to the timeout of the command.
	connectTimeout = 30 * time.Second
)

// commands are the commands that run in workspaces, at most one for each test.
type commands struct {
	// run runs a command through an agent. began reports that the command may have begun.
	run func(ctx context.Context, client *coderd.Client, agent uuid.UUID, command agents.Command, limit time.Duration) (began bool, err error)

	mu   sync.Mutex
	runs map[types.UID]*execution
}

// execution is a command that runs or has ended.
type execution struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	// began and err may be read when done is closed.
	output output
	began  bool
	err    error
}

// stop ends the command of a test.
func (c *commands) stop(test types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if run := c.runs[test]; run != nil {
		run.cancel()
		delete(c.runs, test)
	}
}

// poll starts a command, and returns it when it has ended. Until then it returns nil.
func (c *commands) poll(ctx context.Context, test types.UID, client *coderd.Client, agent uuid.UUID, command coderv1alpha1.TemplateTestCommand) *execution {
	c.mu.Lock()
	defer c.mu.Unlock()
	run := c.runs[test]
	if run == nil || run.name != command.Name {
		run = &execution{name: command.Name, done: make(chan struct{})}
		// The command runs on when the pass ends.
		limit := time.Duration(command.TimeoutSeconds) * time.Second
		ctx, run.cancel = context.WithTimeout(context.WithoutCancel(ctx), connectTimeout+limit)
		c.runs[test] = run
		go func() {
			defer close(run.done)
			defer run.cancel()
			run.began, run.err = c.run(ctx, client, agent, agents.Command{Args: command.Command, Stdout: &run.output, Stderr: &run.output}, limit)
		}()
	}
	select {
	case <-run.done:
		delete(c.runs, test)
		return run
	default:
		return nil
	}
}

// through returns a function that runs commands through the connections of a pool.
func through(pool *agents.Pool) func(context.Context, *coderd.Client, uuid.UUID, agents.Command, time.Duration) (bool, error) {
	return func(ctx context.Context, client *coderd.Client, agent uuid.UUID, command agents.Command, limit time.Duration) (began bool, err error) {
		session, err := pool.Open(ctx, client, agent)
		if err != nil {
			return false, err
		}
		defer session.End()
		ssh, err := session.SSH(ctx)
		if err != nil {
			return false, err
		}
		defer func() { _ = ssh.Close() }()
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return true, agents.Run(ctx, ssh, command)
	}
}

// runCommands runs the commands that have no result yet, one after the other.
func (p *pass) runCommands(ctx context.Context, all []coderd.Agent) error {
	status := &p.test.Status
	for _, command := range p.test.Spec.Checks.Commands {
		if slices.ContainsFunc(status.Commands, func(r coderv1alpha1.TemplateTestCommandResult) bool { return r.Name == command.Name }) {
			continue
		}
		p.check = checkCommand + command.Name
		agent, err := chooseAgent(all, command.Agent)
		if err != nil {
			return err
		}
		ended := p.commands.poll(ctx, p.test.UID, p.client, agent, command)
		if ended == nil {
			return ensure.Waits(coderv1alpha1.ReasonChecking, pollInterval/2, "command %q runs", command.Name)
		}
		result, err := resultOf(ended, command)
		if result != nil {
			status.Commands = append(status.Commands, *result)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func chooseAgent(all []coderd.Agent, name string) (uuid.UUID, error) {
	var names []string
	for _, a := range all {
		if a.Name == name || name == "" && len(all) == 1 {
			return a.ID, nil
		}
		names = append(names, a.Name)
	}
	return uuid.Nil, ensure.Fails(coderv1alpha1.ReasonCommandFailed, 0, "the command names agent %q, and the workspace has the agents %q", name, names)
}

// resultOf returns the result of a command that has ended, or nil if it must run again. The error is that of the check.
func resultOf(run *execution, command coderv1alpha1.TemplateTestCommand) (*coderv1alpha1.TemplateTestCommandResult, error) {
	result := &coderv1alpha1.TemplateTestCommandResult{Name: command.Name, Output: run.output.shown()}
	printed := strings.TrimSpace(result.Output)
	lastLine := cmp.Or(printed[strings.LastIndexByte(printed, '\n')+1:], "it printed nothing")
	exit, exited := errors.AsType[utilexec.ExitError](run.err)
	fails := func(format string, args ...any) error {
		return ensure.Fails(coderv1alpha1.ReasonCommandFailed, 0, "command %q %s: %s", command.Name, fmt.Sprintf(format, args...), lastLine)
	}
	switch {
	case run.err == nil:
		result.ExitCode = ptr.To[int32](0)
		return result, nil
	case exited:
		result.ExitCode = ptr.To(int32(exit.ExitStatus()))
		return result, fails("ended with exit code %d", exit.ExitStatus())
	case run.began && errors.Is(run.err, context.DeadlineExceeded):
		return result, fails("did not end within %d seconds", command.TimeoutSeconds)
	}
	return nil, ensure.Waits(coderv1alpha1.ReasonChecking, 2*pollInterval, "command %q could not run, and is tried again: %s", command.Name, run.err)
}

// output keeps the end of what a command prints. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	tail []byte
	cut  bool
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail = append(o.tail, p...)
	if over := len(o.tail) - keptOutput; over > 0 {
		o.tail, o.cut = slices.Delete(o.tail, 0, over), true
	}
	return len(p), nil
}

// shown returns the end of the output for the status, without what looks like a secret. It begins with a whole line, because the rest
// of a line may not show that it contains a secret.
func (o *output) shown() string {
	o.mu.Lock()
	text, cut := strings.ToValidUTF8(string(o.tail), "?"), o.cut
	o.mu.Unlock()
	if cut {
		_, text, _ = strings.Cut(text, "\n")
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, new(redaction.Redactor).Text(text))
	if over := len(text) - shownOutput; over > 0 {
		_, text, _ = strings.Cut(text[over:], "\n")
	}
	return text
}
