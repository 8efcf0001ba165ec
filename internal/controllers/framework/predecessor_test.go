package framework

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// faultsOfThePredecessor maps each fault of the previous operator to the tests that keep it from
// returning, in all three kinds and the shared code. A test is its directory in the repository and
// its name.
//
//	C6   proxies did not start with the official image
//	C7   raw SQL created the operator's account, and seized an account of that name
//	C8   the token outlived the control plane
//	C9   TLS broke all clients that called Coder inside the cluster
//	C10  a permission that could not be granted stopped everything
//	K1   failures of the operator's access were not reported
//	K2   the database was found in one kind of variable only
//	K3   each reconciliation wrote to the database
//	K4   changed Secrets did not roll the pods
//	K5   changes by other clients to pods and objects were reverted
//	K6   replicas were forced
//	K7   names that were too long or contained dots failed late, and in a loop
//	K8   objects of other owners were seized
//	K9   any license counted, old ones remained, expiry was not reported
//	K10  Ready meant one pod; failed rollouts were not detected; the cluster domain was fixed
//	K11  the access URL did not follow from expose; wildcard hosts were wrong
//	K12  all Secrets and ConfigMaps were cached; namespaces could not be restricted
//	K13  a provisioner key that was deleted in Coder was not detected
//	K14  rotation interrupted running jobs; another Secret's name caused a rotation
//	K15  two objects with one key name deleted each other's key
//	K16  without entitlement the spec was frozen
//	K17  provisioners lacked most settings
//	K18  keys outlived their provisioner; hashes were short
//	K19  proxies were never unregistered, verified or updated, and seized those of others
//	K20  there were no metrics and no Events, and the logs were for developers only
func faultsOfThePredecessor() map[string][]string {
	const (
		plane  = "internal/controllers/controlplane "
		shared = "internal/controllers/framework "
		build  = "internal/controllers/resources "
		access = "internal/controllers/controlplane/access "
		lic    = "internal/controllers/controlplane/licensing "
		prov   = "internal/controllers/provisioner "
		keys   = "internal/controllers/provisioner/keys "
		proxy  = "internal/controllers/workspaceproxy "
		reg    = "internal/controllers/workspaceproxy/registration "
		apply  = "internal/kube/apply "
	)
	return map[string][]string{
		"C6":  {proxy + "TestC6StartsWithTheOfficialImage", build + "TestC6StartsWithTheOfficialImage"},
		"C7":  {shared + "TestC7NoDatabaseIsOpened", access + "TestFreshDeployment", access + "TestUsersExist", access + "TestSecondControlPlaneOnTheSameDatabase"},
		"C8":  {plane + "TestDeletionRevokesAndCleansUp", "test/integration TestDeletionRevokesTheToken"},
		"C9":  {plane + "TestC9TLSDoesNotChangeTheWayToCoder", build + "TestAddressesInsideTheCluster"},
		"C10": {plane + "TestWorkspaceTroubleStopsNothingElse", shared + "TestNamespacesThatTheOperatorDoesNotWorkIn"},
		"K1":  {plane + "TestAnyAnswerOfCoder", plane + "TestUnreachableCoder", access + "TestRefusals", access + "TestRefusedCredentials"},
		"K2":  {build + "TestDatabaseConfigured", build + "TestDatabaseSecret"},
		"K3":  {plane + "TestAWorkingCoderIsAskedOnceAnHour", plane + "TestDisabledAccessIsTakenBackAndThenLeftAlone", lic + "TestTwoCallsAnHourAtRest"},
		"K4":  {shared + "TestAChangeOfWhatThePodsUseRollsThem", shared + "TestSecretsWakeWhoeverRefersToThem"},
		"K5":  {shared + "TestWhatOthersAddToThePodsSurvives", apply + "TestFieldsOfOthersSurviveAndOursAreRestored", "test/integration TestOthersChangesStay"},
		"K6":  {shared + "TestReplicasOfOthersAreLeftAlone", "test/admission TestScale"},
		"K7":  {plane + "TestBadNamesStall", shared + "TestNamesThatAreTooLongAreToldOnce", proxy + "TestANameWithADotIsToldAndNothingElse", "test/admission TestBadInputIsRefused"},
		"K8":  {plane + "TestChildrenOfOthersAreNotTouched", prov + "TestWhatIsSomeoneElsesIsNotTouched", shared + "TestNothingOfOthersIsPruned", apply + "TestNothingIsAdopted"},
		"K9":  {plane + "TestALicenseComesChangesAndGoes", plane + "TestTheEndOfALicenseIsTold", lic + "TestReplacedLicensesGo", lic + "TestExpiryIsTold"},
		"K10": {plane + "TestPodTrouble", plane + "TestARolloutThatKubernetesGaveUpStalls", plane + "TestALifeAsKstatusSeesIt", build + "TestAddressesInsideTheCluster"},
		"K11": {build + "TestAccessURL", build + "TestWildcardHosts"},
		"K12": {shared + "TestTheCacheHoldsNoContent", shared + "TestAPassAtRestReadsNothingLive", shared + "TestNamespacesThatTheOperatorDoesNotWorkIn"},
		"K13": {keys + "TestK13AKeyThatWasDeletedInCoderIsMadeAnew"},
		"K14": {prov + "TestK14RotationWaitsForTerminatingPods", prov + "TestK14RotationWaitsForTheDeploymentController", keys + "TestK14TheOldKeyOutlivesThePodsThatHoldIt"},
		"K15": {prov + "TestK15TheOlderOneHasTheKey", keys + "TestK15AKeyOfSomeoneElseIsNotTouched", keys + "TestK15AKeyThatSomeoneMadeMeanwhileIsNotTouched"},
		"K16": {prov + "TestK16LossOfEntitlementStopsNoEdit", keys + "TestK16WithoutALicenseTheKeyStaysAndNoneIsMade", proxy + "TestALicenseThatEndsDoesNotFreezeTheSpec"},
		"K17": {build + "TestK17GoldenObjects", build + "TestEveryFieldHasASay", "test/docs TestEachValueHasARow"},
		"K18": {prov + "TestK18DeletionLetsJobsFinishAndDeletesTheKey", prov + "TestK18AnUnreachableCoderDelaysDeletionForAMinute", keys + "TestK18AKeyThatCannotBeDeletedIsTold", build + "TestK18TagsHash"},
		"K19": {proxy + "TestK19DeletionUnregisters", proxy + "TestK19ErrorsAreInTheStatus", reg + "TestK19AProxyOfSomebodyElseIsNotSeized", reg + "TestK19NameDisplayNameAndIconAreKeptInLine", reg + "TestK19TheTokenIsVerifiedAgainstCoder"},
		"K20": {shared + "TestTheTimeUntilReadyIsMeasuredOnce", shared + "TestRecoveryIsNewsAndABeginningIsNot", shared + "TestSeriesGoWithTheirObject", "internal/app TestAllLogsAreOneJSONObjectPerLine"},
	}
}

// root is the root of the repository.
const root = "../../.."

// TestEveryFaultOfThePredecessorHasItsTests fails if a test that covers an old fault was renamed or
// removed.
func TestEveryFaultOfThePredecessorHasItsTests(t *testing.T) {
	faults := faultsOfThePredecessor()
	for _, numbered := range []struct {
		letter      string
		first, last int
	}{{"C", 6, 10}, {"K", 1, 20}} {
		for n := numbered.first; n <= numbered.last; n++ {
			if len(faults[numbered.letter+strconv.Itoa(n)]) == 0 {
				t.Errorf("no test stands against %s%d", numbered.letter, n)
			}
		}
	}
	known := map[string][]string{}
	for fault, tests := range faults {
		for _, test := range tests {
			dir, name, _ := strings.Cut(test, " ")
			if known[dir] == nil {
				known[dir] = testsIn(t, dir)
			}
			if !slices.Contains(known[dir], name) {
				t.Errorf("%s: there is no %s in %s", fault, name, dir)
			}
		}
	}
}

func testsIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil {
				names = append(names, function.Name.Name)
			}
		}
	}
	return names
}

// TestC7NoDatabaseIsOpened checks that no package connects to PostgreSQL. The operator uses only
// Coder's API and Coder's own command.
func TestC7NoDatabaseIsOpened(t *testing.T) {
	seen := 0
	for _, top := range []string{"internal", "api", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			seen++
			for _, imported := range file.Imports {
				for _, driver := range []string{"database/sql", "lib/pq", "jackc/pgx", "coderd/database"} {
					if strings.Contains(imported.Path.Value, driver) {
						t.Errorf("%s imports %s", path, imported.Path.Value)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if seen < 100 {
		t.Errorf("only %d files seen", seen)
	}
}
