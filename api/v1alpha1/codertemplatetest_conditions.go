package v1alpha1

// Conditions of a CoderTemplateTest, in addition to Ready, Reconciling and Stalled.
const (
	// ConditionFinished is true when the test has a result: Ready is then true if it succeeded.
	ConditionFinished = "Finished"
	// ConditionWorkspaceDeleted is true when the workspace of the test no longer exists in Coder, or
	// never did.
	ConditionWorkspaceDeleted = "WorkspaceDeleted"
)

// Reasons for which a test waits before it requests its workspace. If that takes longer than
// spec.timeoutSeconds, the test fails with the same reason.
const (
	// ReasonTemplateTestsNotConfigured: the control plane has no spec.templateTests.
	ReasonTemplateTestsNotConfigured = "TemplateTestsNotConfigured"
	// ReasonTooManyTests: spec.templateTests.maxConcurrent tests of the control plane run already.
	ReasonTooManyTests = "TooManyTests"
	// ReasonTemplateNotFound: Coder has no template of that name, or the template no such version or
	// preset.
	ReasonTemplateNotFound = "TemplateNotFound"
	// ReasonTemplateVersionImporting: Coder still builds the version.
	ReasonTemplateVersionImporting = "TemplateVersionImporting"
	// ReasonOwnerNotEligible: the user of spec.templateTests does not exist, is not active, or has a
	// role other than member.
	ReasonOwnerNotEligible = "OwnerNotEligible"
)

// Reasons of a running test.
const (
	// ReasonConfirmingCreate: Coder did not answer the request for the workspace, so the operator looks
	// whether it exists.
	ReasonConfirmingCreate = "ConfirmingCreate"
	// ReasonBuilding: Coder builds the workspace.
	ReasonBuilding = "Building"
	// ReasonChecking: the workspace runs, and not all checks have passed yet.
	ReasonChecking = "Checking"
)

// Results of a test, in addition to the reasons for which a test waits.
const (
	// ReasonTestSucceeded: all checks passed.
	ReasonTestSucceeded = "TestSucceeded"
	// ReasonTemplateVersionUnusable: the build of the version failed or was canceled, or the version is
	// archived.
	ReasonTemplateVersionUnusable = "TemplateVersionUnusable"
	// ReasonWorkspaceRefused: Coder refused to create the workspace, for example because a parameter
	// has no value.
	ReasonWorkspaceRefused = "WorkspaceRefused"
	// ReasonWorkspaceNameConflict: a workspace with the name exists, and nothing proves that the
	// operator created it for this test. It is not touched.
	ReasonWorkspaceNameConflict = "WorkspaceNameConflict"
	// ReasonWorkspaceChangedExternally: somebody built or deleted the workspace during the test.
	ReasonWorkspaceChangedExternally = "WorkspaceChangedExternally"
	// ReasonBuildFailed: the build of the workspace failed or was canceled.
	ReasonBuildFailed = "BuildFailed"
	// ReasonNoAgents: the workspace runs and has no agent.
	ReasonNoAgents = "NoAgents"
	// ReasonAgentStartError: a startup script of an agent failed.
	ReasonAgentStartError = "AgentStartError"
	// ReasonTooSlow: the agents were not ready within spec.checks.readyWithinSeconds.
	ReasonTooSlow = "TooSlow"
	// ReasonCommandFailed: a command did not end with exit code 0 within its time.
	ReasonCommandFailed = "CommandFailed"
	// ReasonTimedOut: the checks did not all pass within spec.timeoutSeconds.
	ReasonTimedOut = "TimedOut"
)

// Reasons of the condition WorkspaceDeleted.
const (
	// ReasonWorkspaceGone: the workspace was deleted.
	ReasonWorkspaceGone = "WorkspaceGone"
	// ReasonWorkspaceNeverCreated: Coder never created a workspace for the test.
	ReasonWorkspaceNeverCreated = "WorkspaceNeverCreated"
	// ReasonWorkspaceNeeded: the test runs.
	ReasonWorkspaceNeeded = "WorkspaceNeeded"
	// ReasonDeletingWorkspace: Coder deletes the workspace.
	ReasonDeletingWorkspace = "DeletingWorkspace"
	// ReasonDeleteBuildFailed: the build that deletes the workspace failed. The operator tries again.
	ReasonDeleteBuildFailed = "DeleteBuildFailed"
	// ReasonWorkspaceLeft: the operator stopped trying to delete the workspace. It must be deleted in
	// Coder.
	ReasonWorkspaceLeft = "WorkspaceLeft"
)

// FinalizerTemplateTest blocks the deletion of a test until its workspace no longer exists.
const FinalizerTemplateTest = "coder.com/template-test-cleanup"
