package template

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

const (
	// maxTests and maxTestBytes limit spec.tests.
	maxTests, maxTestBytes = 10, 64 << 10
	// maxTestMessage limits the message of a test in the status, in bytes.
	maxTestMessage = 1 << 10
	// testTTL is how long a finished CoderTemplateTest is kept. If a failed one is gone a while earlier, somebody
	// deleted it to run the test again.
	testTTL, testTTLMargin = 7 * 24 * time.Hour, time.Hour
	// The defaults of a CoderTemplateTest.
	defaultTestTimeout, defaultCommandTimeout = 900, 60
)

// Tests creates and reads CoderTemplateTests as the operator.
type Tests interface {
	Get(ctx context.Context, namespace, name string) (*coderv1alpha1.CoderTemplateTest, error)
	Create(ctx context.Context, test *coderv1alpha1.CoderTemplateTest, dryRun bool) (*coderv1alpha1.CoderTemplateTest, error)
}

// testResult is the state of a test of a candidate. Succeeded is final.
type testResult struct {
	aggregationv1alpha1.TemplateTestState `json:",inline"`
	// UID is that of the CoderTemplateTest. Another object with the same name does not count.
	UID types.UID `json:"uid,omitempty"`
	// EndedAt is when the failure was seen.
	EndedAt *metav1.Time `json:"endedAt,omitempty"`
}

func afterTest(tmpl object) bool {
	return tmpl.Spec.Activation == aggregationv1alpha1.ActivationAfterTest
}

// validateTests validates spec.tests, except for what the definition of CoderTemplateTest validates.
func validateTests(spec aggregationv1alpha1.CoderTemplateSpec) field.ErrorList {
	var errs field.ErrorList
	path := specPath.Child("tests")
	if spec.Activation == aggregationv1alpha1.ActivationAfterTest && len(spec.Tests) == 0 {
		errs = append(errs, field.Required(path, "spec.activation AfterTest needs at least one test; a test with only a name tests that the agents are ready"))
	}
	if n := len(spec.Tests); n > maxTests {
		return append(errs, field.TooMany(path, n, maxTests))
	}
	if data, err := json.Marshal(spec.Tests); err != nil || len(data) > maxTestBytes {
		return append(errs, field.TooLong(path, "", maxTestBytes))
	}
	for i, test := range spec.Tests {
		for _, problem := range validation.IsDNS1123Label(test.Name) {
			errs = append(errs, field.Invalid(path.Index(i).Child("name"), test.Name, problem))
		}
		if slices.ContainsFunc(spec.Tests[:i], func(other aggregationv1alpha1.TemplateTest) bool { return other.Name == test.Name }) {
			errs = append(errs, field.Duplicate(path.Index(i).Child("name"), test.Name))
		}
	}
	return errs
}

// checkTests checks changed tests: the caller's permission, and that kube-apiserver accepts each as a CoderTemplateTest. was is
// nil for a new template.
func (k *Kind) checkTests(ctx context.Context, connection connections.Connection, was, wanted object) error {
	same := was != nil && equality.Semantic.DeepEqual(was.Spec.Tests, wanted.Spec.Tests)
	if len(wanted.Spec.Tests) == 0 || same && (afterTest(was) || !afterTest(wanted)) {
		return nil
	}
	switch {
	case k.tests == nil || connection.ControlPlane.Name == "":
		return invalid(wanted, field.Forbidden(specPath.Child("tests"), "the Coder of this namespace has no CoderControlPlane, so it has no tests"))
	case afterTest(wanted):
		// The operator creates the tests for the caller.
		if err := k.mayCreate(ctx, wanted, "spec.activation AfterTest with these spec.tests", authorizer.AttributesRecord{
			APIGroup: coderv1alpha1.GroupVersion.Group, APIVersion: coderv1alpha1.GroupVersion.Version, Resource: "codertemplatetests",
		}); err != nil {
			return err
		}
	}
	if same {
		return nil
	}
	for i, test := range wanted.Spec.Tests {
		_, err := k.tests.Create(ctx, &coderv1alpha1.CoderTemplateTest{
			ObjectMeta: metav1.ObjectMeta{Namespace: wanted.Namespace, GenerateName: "template-test-"},
			Spec:       testSpec(test, connection.ControlPlane.Name, strings.TrimPrefix(wanted.Name, connection.NamePrefix), uuid.Nil),
		}, true)
		switch {
		case apierrors.IsInvalid(err):
			return invalid(wanted, testProblem(specPath.Child("tests").Index(i), err))
		case apierrors.IsNotFound(err):
			return invalid(wanted, field.Forbidden(specPath.Child("tests"), "this cluster has no CoderTemplateTests: "+err.Error()))
		case err != nil && !apierrors.IsForbidden(err):
			// A quota may have room when the test is created. Otherwise the condition reports it.
			return err
		}
	}
	return nil
}

// testProblem converts the error of an invalid CoderTemplateTest to one of the test at a path.
func testProblem(path *field.Path, err error) *field.Error {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if name, ok := strings.CutPrefix(cause.Field, "spec."); ok {
				return field.Invalid(path.Child(name), field.OmitValueType{}, cause.Message)
			}
		}
	}
	return field.Invalid(path, field.OmitValueType{}, err.Error())
}

// testSpec returns the spec of the CoderTemplateTest of a test, with all defaults.
func testSpec(test aggregationv1alpha1.TemplateTest, controlPlane, template string, version uuid.UUID) coderv1alpha1.CoderTemplateTestSpec {
	test = *test.DeepCopy()
	if test.TimeoutSeconds == 0 {
		test.TimeoutSeconds = defaultTestTimeout
	}
	for i := range test.Checks.Commands {
		if c := &test.Checks.Commands[i]; c.TimeoutSeconds == 0 {
			c.TimeoutSeconds = defaultCommandTimeout
		}
	}
	return coderv1alpha1.CoderTemplateTestSpec{
		ControlPlaneRef: coderv1alpha1.ControlPlaneReference{Name: controlPlane},
		Template:        template, Version: coderv1alpha1.TemplateTestVersion{ID: version.String()},
		Parameters: test.Parameters, Preset: test.Preset, Checks: test.Checks, TimeoutSeconds: test.TimeoutSeconds,
		TTLSecondsAfterFinished: ptr.To(int32(testTTL / time.Second)),
	}
}

// testName returns the name of the CoderTemplateTest of a test, with at most 63 characters. It contains a hash of the whole spec that
// nobody can compute without the salt, so nobody else can create an object with this name before the operator does.
func (w *settling) testName(test string, spec coderv1alpha1.CoderTemplateTestSpec) string {
	// Marshaling these types cannot fail.
	data, _ := json.Marshal(spec)
	mac := hmac.New(sha256.New, []byte(w.intent.Salt))
	fmt.Fprintf(mac, "%s %s %s", w.template.ID, test, data)
	readable := func(text string, most int) string { return strings.ToLower(text[:min(len(text), most)]) }
	return fmt.Sprintf("%s-%s-%s", readable(w.template.Name, 24), readable(test, 20), hex.EncodeToString(mac.Sum(nil))[:16])
}

// test creates the CoderTemplateTests of a candidate that is promoted when they have succeeded, and records their states.
func (w *settling) test(ctx context.Context) error {
	r := w.intent.Release
	if !w.intent.tested(w.page.active.ID) || r.VersionID == uuid.Nil || r.Refused != "" {
		return nil
	}
	next := *r
	version, err := w.versionOf(ctx, r)
	switch {
	case coderd.IsNotFound(err), err == nil && version.Status != buildSucceeded:
		return nil
	case err != nil:
		return err
	case version.Archived || r.Over != w.page.active.ID:
		// This is the newer decision, so the candidate waits until somebody promotes it.
		next.AfterTest, next.Tests = false, nil
	default:
		next.Tests = nil
		for _, test := range w.intent.Tests {
			result, err := w.resultOf(ctx, test)
			if err != nil {
				return err
			}
			next.Tests = append(next.Tests, result)
			w.testing = w.testing || !result.failed() && result.Phase != coderv1alpha1.TemplateTestSucceeded
		}
	}
	if equality.Semantic.DeepEqual(r.Tests, next.Tests) && r.AfterTest == next.AfterTest {
		return nil
	}
	w.intent.Release = &next
	log.FromContext(ctx).V(1).Info("Recorded the tests of a template version", "template", w.template.Name, "version", r.Name)
	return w.save(ctx)
}

// resultOf returns the state of a test of the candidate. It creates the CoderTemplateTest if there is none.
func (w *settling) resultOf(ctx context.Context, test aggregationv1alpha1.TemplateTest) (testResult, error) {
	controlPlane := w.connection.ControlPlane
	spec := testSpec(test, controlPlane.Name, w.template.OrganizationName+"."+w.template.Name, w.intent.Release.VersionID)
	result := testResult{TemplateTestState: aggregationv1alpha1.TemplateTestState{
		Name: test.Name, TestName: w.testName(test.Name, spec), Phase: coderv1alpha1.TemplateTestPending,
	}}
	i := slices.IndexFunc(w.intent.Release.Tests, func(t testResult) bool { return t.TestName == result.TestName })
	var before testResult
	if i >= 0 {
		before = w.intent.Release.Tests[i]
	}
	if before.Phase == coderv1alpha1.TemplateTestSucceeded {
		return before, nil
	}
	if w.kind.tests == nil {
		return result, errors.New("bug: a template has tests, and this server has no CoderTemplateTests")
	}
	now := w.kind.Clock.Now()
	got, err := w.kind.tests.Get(ctx, controlPlane.Namespace, result.TestName)
	switch {
	case apierrors.IsNotFound(err) && before.failed() && now.Sub(before.EndedAt.Time) > testTTL-testTTLMargin:
		return before, nil
	case apierrors.IsNotFound(err):
		// If somebody deleted it, it runs again.
		before = testResult{}
		got, err = w.kind.tests.Create(ctx, &coderv1alpha1.CoderTemplateTest{
			ObjectMeta: metav1.ObjectMeta{Namespace: controlPlane.Namespace, Name: result.TestName}, Spec: spec,
		}, false)
	}
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsNotFound(err):
		result.say("its CoderTemplateTest cannot be created: " + err.Error())
		return result, nil
	case err != nil:
		return result, err
	case before.failed() && got.UID == before.UID:
		return before, nil
	}
	result.UID = got.UID
	if before.UID != "" && before.UID != got.UID || !equality.Semantic.DeepEqual(got.Spec, spec) {
		result.Phase = coderv1alpha1.TemplateTestFailed
		result.say(fmt.Sprintf("the operator did not create the CoderTemplateTest of this name that exists now; delete %s to run the test again", result.TestName))
	} else {
		result.read(got)
	}
	if result.failed() {
		result.EndedAt = ptr.To(registry.Seconds(now))
	}
	return result, nil
}

func (t testResult) failed() bool { return t.Phase == coderv1alpha1.TemplateTestFailed }

func (t *testResult) say(text string) { t.Message = redaction.Truncate(text, maxTestMessage) }

func (t *testResult) read(got *coderv1alpha1.CoderTemplateTest) {
	if got.Status.Phase == "" {
		t.say("no controller has started the CoderTemplateTest yet")
		return
	}
	t.Phase, t.FailedCheck = got.Status.Phase, got.Status.FailedCheck
	if t.Phase == coderv1alpha1.TemplateTestSucceeded {
		return
	}
	for _, c := range got.Status.Conditions {
		if c.Type == coderv1alpha1.ConditionReady {
			t.say(c.Message)
		}
	}
}

// tested reports whether the candidate is promoted when its tests have succeeded.
func (in *intent) tested(active uuid.UUID) bool {
	return in.Release.waits(active) && in.Release.AfterTest && in.Activation == aggregationv1alpha1.ActivationAfterTest
}

// passed reports whether all tests of the candidate have succeeded.
func (in *intent) passed(active uuid.UUID) bool {
	return in.tested(active) && in.succeeded() == len(in.Tests) && len(in.Tests) > 0
}

func (in *intent) succeeded() int {
	n := 0
	for _, t := range in.Release.Tests {
		if t.Phase == coderv1alpha1.TemplateTestSucceeded {
			n++
		}
	}
	return n
}

// testsVerdict returns the verdict of condition Ready for a candidate that is tested, and whether the tests are in progress.
func testsVerdict(s *snapshot) (ready registry.Verdict, underWay bool) {
	candidate, active := s.shown.Name, s.page.active.Name
	tests := s.intent.Release.Tests
	if i := slices.IndexFunc(tests, testResult.failed); i >= 0 {
		check := ""
		if tests[i].FailedCheck != "" {
			check = fmt.Sprintf(" at check %q", tests[i].FailedCheck)
		}
		return registry.False(aggregationv1alpha1.ReasonTestsFailed, fmt.Sprintf("test %q of version %q failed%s (CoderTemplateTest %s): %s; version %q stays active",
			tests[i].Name, candidate, check, tests[i].TestName, tests[i].Message, active)), false
	}
	message := fmt.Sprintf("version %q is built, and %d of %d tests have succeeded", candidate, s.intent.succeeded(), len(s.intent.Tests))
	if i := slices.IndexFunc(tests, func(t testResult) bool { return t.Phase != coderv1alpha1.TemplateTestSucceeded }); i >= 0 {
		message += fmt.Sprintf("; test %q (CoderTemplateTest %s): %s", tests[i].Name, tests[i].TestName, tests[i].Message)
	}
	return registry.False(aggregationv1alpha1.ReasonTestsRunning, message), true
}
