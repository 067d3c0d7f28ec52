package suites

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// djangoGroups are apps of Django's own tests (5.2.19, as its MySQL backend runs them). A group has a server and a process of its own;
// a definition takes longer the more tables there are.
func djangoGroups() []string {
	return []string{
		"aggregation aggregation_regress annotations bulk_create dates datetimes db_functions db_typecasts defer delete expressions " +
			"expressions_case expressions_window extra_regress filtered_relation get_or_create lookup model_fields null_queries or_lookups ordering " +
			"prefetch_related queries raw_query reserved_names string_lookup timezones update xor_lookups",
		"backends basic composite_pk constraints custom_pk field_defaults fixtures foreign_object indexes inspectdb introspection m2m_through " +
			"many_to_many multiple_database save_delete_hooks schema select_for_update transactions",
	}
}

// djangoSoakGroups are run in addition with LANCESQL_SOAK=1: the other apps that have tables and need only Python.
func djangoSoakGroups() []string {
	return []string{
		"migrations",
		"async contenttypes_tests custom_columns custom_lookups custom_managers custom_methods custom_migration_operations datatypes db_utils " +
			"defer_regress delete_regress distinct_on_fields empty empty_models field_subclassing fixtures_model_package fixtures_regress " +
			"force_insert_update from_db_value generic_relations generic_relations_regress get_earliest_or_latest get_object_or_404 " +
			"known_related_objects m2m_and_m2o m2m_intermediary m2m_multiple m2m_recursive m2m_regress m2m_signals m2m_through_regress " +
			"m2o_recursive managers_regress many_to_one many_to_one_null max_lengths migrate_signals migration_test_data_persistence",
		"model_enums model_forms model_formsets model_formsets_regress model_indexes model_inheritance model_inheritance_regress model_options " +
			"model_package model_regress model_utils mutually_referential nested_foreign_keys null_fk null_fk_ordering one_to_one " +
			"order_with_respect_to pagination properties proxy_model_inheritance proxy_models queryset_pickle reverse_lookup select_related " +
			"select_related_onetoone select_related_regress serializers sessions_tests signals sites_framework sites_tests str swappable_models " +
			"transaction_hooks unmanaged_models update_only_fields validation",
	}
}

// How many tests pass at least. One more or less is of the version of Python.
const (
	djangoPasses     = 3790
	djangoSoakPasses = 6860
)

// djangoKnown are the tests that fail, by name, with the reason: in the file a line that begins with # is the reason of the names below it.
// A gap is one that docs/sql_compatibility.md names. A reason that begins with "either" is of tests that fail or pass as threads and clocks have it.
func djangoKnown(t *testing.T) map[string]string {
	file, err := os.Open(filepath.Join("testdata", "django", "known.txt"))
	require.NoError(t, err)
	defer file.Close()
	known, reason := map[string]string{}, ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		switch text, ok := strings.CutPrefix(line, "#"); {
		case ok:
			reason = strings.TrimSpace(text)
			require.Regexp(t, `^(MariaDB|MySQL|gap|either): `, reason, "whose failure it is")
		case line != "":
			require.NotEmpty(t, reason, line)
			require.Empty(t, known[line], "%s is listed twice", line)
			known[line] = reason
		}
	}
	return known
}

var (
	djangoRan = regexp.MustCompile(`(?m)^Ran (\d+) tests? in `)
	djangoApp = regexp.MustCompile(`^(?:\w+ \()?(\w+)\.`) // setUpClass (app.tests.Class)
)

// TestDjango runs Django's own tests over PyMySQL.
func TestDjango(t *testing.T) {
	if testing.Short() {
		t.Skip("installs Python packages")
	}
	cache, err := filepath.Abs("../../.cache/django")
	require.NoError(t, err)
	if out, err := exec.CommandContext(t.Context(), "../../scripts/django-setup.sh", cache).CombinedOutput(); err != nil {
		cannot(t, "Django cannot be installed: "+err.Error()+" "+string(out))
	}
	groups, passes := djangoGroups(), djangoPasses
	if os.Getenv("LANCESQL_SOAK") == "1" {
		groups, passes = append(groups, djangoSoakGroups()...), djangoSoakPasses
	}
	known, failed := djangoKnown(t), map[string]bool{}
	passed := 0
	for _, apps := range groups {
		passed += djangoRun(t, cache, strings.Fields(apps), failed)
	}
	for test := range failed {
		if known[test] == "" {
			t.Errorf("%s fails", test)
		}
	}
	ran := map[string]bool{}
	for _, app := range strings.Fields(strings.Join(groups, " ")) {
		ran[app] = true
	}
	all := map[string]bool{}
	for _, app := range strings.Fields(strings.Join(append(djangoGroups(), djangoSoakGroups()...), " ")) {
		all[app] = true
	}
	for test := range known {
		app := djangoApp.FindStringSubmatch(test)
		require.Len(t, app, 2, test)
		require.True(t, all[app[1]], "%s is in no group", test)
		if ran[app[1]] && !failed[test] && !strings.HasPrefix(known[test], "either:") {
			t.Errorf("%s is listed and does not fail", test)
		}
	}
	if passed < passes {
		t.Errorf("%d tests pass, wanted at least %d", passed, passes)
	}
	t.Logf("%d pass, %d fail", passed, len(failed))
}

// djangoRun runs the tests of some apps against a server of their own, adds those that fail and returns how many pass.
func djangoRun(t *testing.T, cache string, apps []string, failed map[string]bool) (passed int) {
	addr := serve(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	settings, err := filepath.Abs(filepath.Join("testdata", "django"))
	require.NoError(t, err)
	outcomes := filepath.Join(t.TempDir(), "outcomes")
	args := append([]string{"runtests.py", "--settings=lancesql_settings", "--parallel=1", "--noinput"}, apps...)
	cmd := exec.CommandContext(ctx, filepath.Join(cache, "env", "bin", "python"), args...)
	cmd.Dir = filepath.Join(cache, "django", "tests")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(cache, "django")+string(os.PathListSeparator)+settings, "PYTHONDONTWRITEBYTECODE=1",
		"LANCESQL_ADDR="+addr, "LANCESQL_OUTCOMES="+outcomes)
	began := time.Now()
	out, _ := cmd.CombinedOutput() // its status says what the lines say
	text, err := os.ReadFile(outcomes)
	require.NoError(t, err, "%s", tail(out))
	ran := 0
	for line := range strings.Lines(string(text)) {
		word, test, ok := strings.Cut(strings.TrimSpace(line), "\t")
		require.True(t, ok, line)
		if !strings.Contains(test, " (") { // not setUpClass and its like
			ran++
		}
		switch word {
		case "pass":
			passed++
		case "fail":
			failed[test] = true
		}
	}
	m := djangoRan.FindSubmatch(out)
	if m == nil {
		t.Errorf("the tests ended early\n%s", tail(out))
		return passed
	}
	if n, err := strconv.Atoi(string(m[1])); err != nil || n > ran {
		t.Errorf("%s tests ran, %d have an outcome", m[1], ran)
	}
	t.Logf("%d of %d pass in %v", passed, ran, time.Since(began).Round(time.Second))
	return passed
}
