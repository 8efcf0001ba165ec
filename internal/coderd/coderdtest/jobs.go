package coderdtest

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// BuildResult is the result of a build.
type BuildResult struct {
	// Error makes the build fail with this message. Empty means success.
	Error string
	// Hold keeps the build pending until AdvanceBuilds or FinishBuilds.
	Hold bool
}

// job is the provisioner job of a template version or of a workspace build.
type job struct {
	codersdk.ProvisionerJob
	versionID uuid.UUID
	// workspace is nil in the job of a template version.
	workspace *workspace
	// failureCode is reported if the job fails.
	failureCode codersdk.JobErrorCode
	logs        []codersdk.ProvisionerJobLog
	// silent reports that the log has no end marker. Coder omits it if a build is cancelled before
	// it started.
	silent    bool
	result    BuildResult
	succeeded func()
}

// SetBuildResult sets the result of the builds that start from now on and belong to the workspace
// or template of that name. The empty name sets the default result.
func (s *Server) SetBuildResult(name string, result BuildResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[name] = result
}

// AdvanceBuilds moves each unfinished build one step: from pending to running, or from running to
// its end.
func (s *Server) AdvanceBuilds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.queued...)
}

// FinishBuilds finishes all builds, except those for which there is no provisioner.
func (s *Server) FinishBuilds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.advance(s.queued...) {
	}
}

// ActiveBuilds returns the number of unfinished builds.
func (s *Server) ActiveBuilds() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queued)
}

// enqueue starts the build of the workspace or template with that name. j.succeeded is called when
// it succeeds.
func (s *Server) enqueue(r *request, name string, j job) *job {
	j.ID, j.CreatedAt, j.Status = uuid.New(), s.now(), codersdk.ProvisionerJobPending
	j.InitiatorID = r.user.ID
	result, ok := s.results[name]
	if !ok {
		result = s.results[""]
	}
	j.result = result
	added := &j
	s.queued, s.jobs = append(s.queued, added), append(s.jobs, added)
	if !s.manual && !result.Hold && s.matching(added) > 0 {
		r.after = append(r.after, func() { s.advance(added); s.advance(added) })
	}
	return added
}

// done returns a job that has already succeeded, as initial state of a test.
func (s *Server) done(fileID, orgID, initiator uuid.UUID) *job {
	now := s.now()
	return &job{ProvisionerJob: codersdk.ProvisionerJob{
		ID: uuid.New(), FileID: fileID, OrganizationID: orgID, InitiatorID: initiator, Tags: tagsOf(initiator, nil),
		Type: codersdk.ProvisionerJobTypeTemplateVersionImport, Status: codersdk.ProvisionerJobSucceeded,
		CreatedAt: now, StartedAt: &now, CompletedAt: &now,
	}}
}

// advance reports whether it moved a job. A job for which there is no provisioner stays pending.
func (s *Server) advance(jobs ...*job) (moved bool) {
	for _, j := range jobs {
		now, before := s.now(), j.Status
		switch {
		case j.Status == codersdk.ProvisionerJobPending && s.matching(j) == 0:
		case j.Status == codersdk.ProvisionerJobPending:
			j.Status, j.StartedAt = codersdk.ProvisionerJobRunning, &now
			s.write(j, "Setting up", "Starting the build.")
		case j.Status == codersdk.ProvisionerJobCanceling:
			j.Status, j.Error, j.CompletedAt = codersdk.ProvisionerJobCanceled, "canceled", &now
		case j.Status != codersdk.ProvisionerJobRunning:
		case j.result.Error != "":
			j.Status, j.Error, j.ErrorCode, j.CompletedAt = codersdk.ProvisionerJobFailed, j.result.Error, j.failureCode, &now
			s.write(j, "Planning infrastructure", "The build has failed.")
		default:
			j.Status, j.CompletedAt = codersdk.ProvisionerJobSucceeded, &now
			s.write(j, "Cleaning Up", "The build is done.")
			if j.succeeded != nil {
				j.succeeded()
			}
		}
		moved = moved || j.Status != before
	}
	s.index.order = nil
	s.wakeReaders()
	s.queued = slices.DeleteFunc(slices.Clone(s.queued), func(j *job) bool { return !j.Status.Active() })
	return moved
}

// finish completes a job that no provisioner takes, as Coder does for a deletion without state.
func (s *Server) finish(j *job) {
	now := s.now()
	j.Status, j.StartedAt, j.CompletedAt = codersdk.ProvisionerJobSucceeded, &now, &now
	j.succeeded()
	s.index.order = nil
	s.queued = slices.DeleteFunc(s.queued, func(other *job) bool { return other == j })
}

// updatedAt returns the time of the job's last change.
func (j *job) updatedAt() time.Time {
	switch {
	case j.CompletedAt != nil:
		return *j.CompletedAt
	case j.StartedAt != nil:
		return *j.StartedAt
	}
	return j.CreatedAt
}
