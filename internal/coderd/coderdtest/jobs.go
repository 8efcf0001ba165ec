package coderdtest

import (
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// BuildResult is what becomes of a build.
type BuildResult struct {
	// Error makes the build fail. Empty is success.
	Error string
	// Hold leaves it pending until AdvanceBuilds or FinishBuilds.
	Hold bool
}

// job is the work of a build: of a template version or of a workspace.
type job struct {
	id        uuid.UUID
	fileID    uuid.UUID
	orgID     uuid.UUID
	initiator uuid.UUID
	tags      map[string]string
	// workspace and buildID are nil in the build of a template version.
	workspace *workspace
	buildID   uuid.UUID
	versionID uuid.UUID
	status    codersdk.ProvisionerJobStatus
	failure   string
	errorCode codersdk.JobErrorCode
	logs      []codersdk.ProvisionerJobLog
	// silent says that its log is not ended, as Coder forgets to where a build is
	// cancelled before it began.
	silent      bool
	result      BuildResult
	createdAt   time.Time
	startedAt   *time.Time
	completedAt *time.Time
	canceledAt  *time.Time
	succeeded   func()
}

// SetBuildResult says what becomes of the builds that begin from now on, of the
// workspace or template of that name. The empty name stands for all that have
// no result of their own.
func (s *Server) SetBuildResult(name string, result BuildResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[name] = result
}

// AdvanceBuilds moves each build that is not done one step: from pending to
// running, from running to its end.
func (s *Server) AdvanceBuilds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.queued...)
}

// FinishBuilds brings each build to its end.
func (s *Server) FinishBuilds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queued) > 0 {
		s.advance(s.queued...)
	}
}

// ActiveBuilds counts the builds that are not done.
func (s *Server) ActiveBuilds() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queued)
}

// enqueue begins the build of what has that name. succeeded is called when it
// ends well.
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

// done is a job that has ended well, for state that a test begins with.
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

// updatedAt is when anything happened to the job.
func (j *job) updatedAt() time.Time {
	switch {
	case j.completedAt != nil:
		return *j.completedAt
	case j.startedAt != nil:
		return *j.startedAt
	}
	return j.createdAt
}
