package supportbundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
)

const (
	// logTimeout limits the time for reading one log.
	logTimeout = 20 * time.Second
	// mostRead limits how much of a log is read to find its end, in bytes.
	mostRead = 256 << 20
	// leastLog is the minimum size that each log may have, in bytes.
	leastLog = 64 << 10
)

// podLogs is a pod whose logs are collected.
type podLogs struct {
	pod *corev1.Pod
	// operator reports that it is a pod of the operator.
	operator bool
}

// oneLog identifies the log of one container.
type oneLog struct {
	namespace, pod, container string
	previous                  bool
}

func (l oneLog) path() string {
	name := l.container
	if l.previous {
		name += ".previous"
	}
	return path.Join("logs", l.namespace, l.pod, name+".log")
}

// logs collects the logs of all pods. They share the remaining budget, and the end of each
// log is kept.
func (c *collector) logs(ctx context.Context, s *scope) {
	var all []oneLog
	for _, p := range s.pods {
		for _, status := range slices.Concat(p.pod.Status.InitContainerStatuses, p.pod.Status.ContainerStatuses) {
			log := oneLog{namespace: p.pod.Namespace, pod: p.pod.Name, container: status.Name}
			if status.State.Waiting == nil {
				all = append(all, log)
			}
			if status.LastTerminationState.Terminated != nil {
				log.previous = true
				all = append(all, log)
			}
		}
	}
	for i, log := range all {
		share := max(leastLog, c.archive.budget/int64(len(all)-i))
		text, err := c.read(ctx, log, share)
		if err != nil {
			c.leave(log.path(), err)
			continue
		}
		if text != "" {
			c.addText(log.path(), text)
		}
	}
	c.describe("logs/", fmt.Sprintf("logs of the operator's and of Coder's pods, of the last %s; .previous is of the container before it was restarted", duration.HumanDuration(c.since)))
}

func (c *collector) read(ctx context.Context, log oneLog, most int64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	stream, err := c.kube.CoreV1().Pods(log.namespace).GetLogs(log.pod, &corev1.PodLogOptions{
		Container: log.container, Previous: log.previous, Timestamps: true,
		SinceSeconds: ptr.To(max(1, int64(c.since.Seconds()))),
	}).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = stream.Close() }()
	text, err := endOf(stream, most)
	if err == nil {
		// When the connection is closed, the server may still end the stream normally,
		// which must not be mistaken for the end of the log.
		err = ctx.Err()
	}
	return text, err
}

// endOf returns the last bytes of a stream, from the beginning of a line.
func endOf(stream io.Reader, most int64) (string, error) {
	var kept []byte
	buffer, cut := make([]byte, 64<<10), false
	for total := 0; total < mostRead; {
		n, err := stream.Read(buffer)
		kept, total = append(kept, buffer[:n]...), total+n
		if int64(len(kept)) > 2*most {
			kept, cut = append([]byte{}, kept[int64(len(kept))-most:]...), true
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
	}
	const notice = "[the beginning is left out, see --max-size]\n"
	if int64(len(kept)) > most-int64(len(notice)) {
		kept, cut = kept[int64(len(kept))-max(0, most-int64(len(notice))):], true
	}
	text := string(kept)
	if cut {
		_, text, _ = strings.Cut(text, "\n")
		return notice + text, nil
	}
	return text, nil
}
