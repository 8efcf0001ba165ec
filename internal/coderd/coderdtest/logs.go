package coderdtest

import (
	"net/http"
	"strconv"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// WriteLog adds lines to the log of a workspace build or of a template version.
func (s *Server) WriteLog(id uuid.UUID, stage string, lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var j *job
	if v := s.index.versions[id]; v != nil {
		j = v.job
	} else if w := s.index.builds[id]; w != nil {
		j = w.build(id).job
	}
	if j != nil {
		s.write(j, stage, lines...)
		s.wakeReaders()
	}
}

func (s *Server) write(j *job, stage string, lines ...string) {
	for _, line := range lines {
		s.lastLog++
		j.logs = append(j.logs, codersdk.ProvisionerJobLog{
			ID: s.lastLog, CreatedAt: s.now(), Source: codersdk.LogSourceProvisioner, Level: codersdk.LogLevelInfo, Stage: stage, Output: line,
		})
	}
}

func (s *Server) wakeReaders() {
	close(s.logged)
	s.logged = make(chan struct{})
}

func (s *Server) getLogs(r *request, j *job) {
	after := int64(0)
	if value := r.URL.Query().Get("after"); value != "" {
		var err error
		if after, err = strconv.ParseInt(value, 10, 64); err != nil {
			refuse(http.StatusBadRequest, "Query param \"after\" must be an integer.",
				codersdk.ValidationError{Field: "after", Detail: "Must be an integer"})
		}
	}
	if !r.URL.Query().Has("follow") {
		r.write(http.StatusOK, linesAfter(j, after))
		return
	}
	r.unlocked = func() { s.followLogs(r, j, after) }
}

func linesAfter(j *job, after int64) []codersdk.ProvisionerJobLog {
	out := []codersdk.ProvisionerJobLog{}
	for _, line := range j.logs {
		if line.ID > after {
			out = append(out, line)
		}
	}
	return out
}

// followLogs sends each line as it is written, until the job ends.
func (s *Server) followLogs(r *request, j *job, after int64) {
	s.follow(r, func() (messages []any, ended bool) {
		for _, line := range linesAfter(j, after) {
			messages, after = append(messages, line), line.ID
		}
		return messages, j.CompletedAt != nil && !j.silent
	})
}

// follow sends new messages through a WebSocket each time something is logged, until next reports
// the end. next is called while s.mu is held.
func (s *Server) follow(r *request, next func() (messages []any, ended bool)) {
	conn, err := websocket.Accept(r.w, r.Request, nil)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close(websocket.StatusNormalClosure, "done") }()
	ctx := conn.CloseRead(r.Context())
	for {
		s.mu.Lock()
		messages, ended := next()
		logged := s.logged
		s.mu.Unlock()
		for _, message := range messages {
			if wsjson.Write(ctx, conn, message) != nil {
				return
			}
		}
		if ended {
			return
		}
		select {
		case <-logged:
		case <-ctx.Done():
			return
		case <-s.stopped:
			return
		}
	}
}
