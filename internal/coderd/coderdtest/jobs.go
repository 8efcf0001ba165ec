package coderdtest

import (
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
	id        uuid.UUID
	fileID    uuid.UUID
	orgID     uuid.UUID
	initiator uuid.UUID
	tags      map[string]string
	// workspace and buildID are zero in the job of a template version.
	workspace *workspace
	buildID   uuid.UUID
	versionID uuid.UUID
	status    codersdk.ProvisionerJobStatus
	failure   string
	errorCode codersdk.JobErrorCode
	logs      []codersdk.ProvisionerJobLog
	// silent reports that the log has no end marker. Coder omits it if a build is cancelled before
	// it started.
	silent      bool
	result      BuildResult
	createdAt   time.Time
	startedAt   *time.Time
	completedAt *time.Time
	canceledAt  *time.Time
	succeeded   func()
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

// FinishBuilds finishes all builds.
func (s *Server) FinishBuilds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queued) > 0 {
		s.advance(s.queued...)
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
	j.id, j.createdAt, j.status = uuid.New(), s.now(), codersdk.ProvisionerJobPending
	j.initiator = r.user.id
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
	return &job{
		id: uuid.New(), fileID: fileID, orgID: orgID, initiator: initiator, status: codersdk.ProvisionerJobSucceeded,
		tags: tagsOf(initiator, nil), createdAt: now, startedAt: &now, completedAt: &now,
	}
}

func (s *Server) advance(jobs ...*job) {
	for _, j := range jobs {
		now := s.now()
		switch {
		case j.status == codersdk.ProvisionerJobPending:
			j.status, j.startedAt = codersdk.ProvisionerJobRunning, &now
			s.write(j, "Setting up", "Starting the build.")
		case j.status == codersdk.ProvisionerJobCanceling:
			j.status, j.failure, j.completedAt = codersdk.ProvisionerJobCanceled, "canceled", &now
		case j.status != codersdk.ProvisionerJobRunning:
		case j.result.Error != "":
			j.status, j.failure, j.completedAt = codersdk.ProvisionerJobFailed, j.result.Error, &now
			s.write(j, "Planning infrastructure", "The build has failed.")
		default:
			j.status, j.completedAt = codersdk.ProvisionerJobSucceeded, &now
			s.write(j, "Cleaning Up", "The build is done.")
			if j.succeeded != nil {
				j.succeeded()
			}
		}
	}
	s.index.order = nil
	s.wakeReaders()
	var active []*job
	for _, j := range s.queued {
		if j.status.Active() {
			active = append(active, j)
		}
	}
	s.queued = active
}

func (j *job) sdk() codersdk.ProvisionerJob {
	out := codersdk.ProvisionerJob{
		ID:             j.id,
		CreatedAt:      j.createdAt,
		StartedAt:      j.startedAt,
		CompletedAt:    j.completedAt,
		CanceledAt:     j.canceledAt,
		Error:          j.failure,
		Status:         j.status,
		FileID:         j.fileID,
		Tags:           j.tags,
		OrganizationID: j.orgID,
		InitiatorID:    j.initiator,
		Type:           codersdk.ProvisionerJobTypeTemplateVersionImport,
	}
	if j.status == codersdk.ProvisionerJobFailed {
		out.ErrorCode = j.errorCode
	}
	if j.workspace != nil {
		out.Type = codersdk.ProvisionerJobTypeWorkspaceBuild
		out.Input.WorkspaceBuildID = &j.buildID
	} else if j.versionID != uuid.Nil {
		out.Input.TemplateVersionID = &j.versionID
	}
	return out
}

// updatedAt returns the time of the job's last change.
func (j *job) updatedAt() time.Time {
	switch {
	case j.completedAt != nil:
		return *j.completedAt
	case j.startedAt != nil:
		return *j.startedAt
	}
	return j.createdAt
}
