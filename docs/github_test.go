// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/docs/pages"
	"github.com/csccm/csccm/pkg/version"
)

// workflow is what the tests need of a file in .github/workflows; actionlint (make lint) checks its syntax.
type workflow struct {
	On          any
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Timeout     int `json:"timeout-minutes"`
		Steps       []struct {
			Uses, Run string
			With      map[string]any
		}
	}
}

// workflows are the workflows by their file's name, and their texts.
func workflows(t *testing.T) (parsed map[string]workflow, texts map[string]string) {
	t.Helper()
	root, err := pages.Root()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 3)
	parsed, texts = map[string]workflow{}, map[string]string{}
	for _, file := range files {
		raw, err := os.ReadFile(file) // #nosec G304 -- a file of the repository
		require.NoError(t, err)
		var w workflow
		require.NoError(t, yaml.Unmarshal(raw, &w), file)
		parsed[filepath.Base(file)], texts[filepath.Base(file)] = w, string(raw)
	}
	return parsed, texts
}

var (
	pinned = regexp.MustCompile(`^- uses: ([\w-]+/[\w./-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)$`)
	// Texts that others write, such as titles and branch names, must not become a part of a script.
	untrusted = regexp.MustCompile(`\$\{\{[^}]*(github\.event\.|github\.head_ref|inputs\.)[^}]*\}\}`)
	makes     = regexp.MustCompile(`\bmake (\$\{\{ matrix\.target \}\}|[a-z0-9-]+)`)
)

// TestWorkflowsAreSafe has the checks of OpenSSF Scorecard that need nothing but the files: Token-Permissions, Pinned-Dependencies and
// Dangerous-Workflow. Only a job of the release may write.
func TestWorkflowsAreSafe(t *testing.T) {
	t.Parallel()
	parsed, texts := workflows(t)
	pins := map[string]string{} // one commit for an action, everywhere
	for name, w := range parsed {
		assert.Equal(t, map[string]string{"contents": "read"}, w.Permissions, "%s: permissions at the top", name)
		for line := range strings.Lines(texts[name]) {
			if line = strings.TrimSpace(line); !strings.Contains(line, "uses:") {
				continue
			}
			m := pinned.FindStringSubmatch("- " + strings.TrimPrefix(line, "- "))
			if !assert.NotNil(t, m, "%s: %q is not pinned by the commit of a release, as in owner/action@COMMIT # v1.2.3", name, line) {
				continue
			}
			if known, ok := pins[m[1]]; ok {
				assert.Equal(t, known, m[2]+m[3], "%s has two versions", m[1])
			}
			pins[m[1]] = m[2] + m[3]
		}
		for _, trigger := range []string{"pull_request_target", "workflow_run", "issue_comment"} {
			assert.NotContains(t, texts[name], trigger, "%s: others start it, with rights of ours", name)
		}
		for job, j := range w.Jobs {
			assert.Positive(t, j.Timeout, "%s: job %s has no time-out", name, job)
			for scope, right := range j.Permissions {
				assert.True(t, right == "read" || name == "release.yml" && job == "release", "%s: job %s may %s %s", name, job, right, scope)
			}
			for _, s := range j.Steps {
				assert.NotRegexp(t, untrusted, s.Run, "%s: job %s", name, job)
				if strings.HasPrefix(s.Uses, "actions/checkout@") {
					assert.Equal(t, false, s.With["persist-credentials"], "%s: job %s leaves a token in .git", name, job)
				}
			}
		}
	}
	assert.NotEmpty(t, pins)
}

// TestScorecardFiles has further checks of OpenSSF Scorecard that need nothing but the files: License, Security-Policy (an address,
// times, and the word), Fuzzing and Binary-Artifacts. The test of release/ holds the Dockerfile's image to a digest.
func TestScorecardFiles(t *testing.T) {
	t.Parallel()
	root, err := pages.Root()
	require.NoError(t, err)
	text := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(root, name)) // #nosec G304 -- a file of the repository
		require.NoError(t, err)
		return string(raw)
	}
	assert.Contains(t, text("LICENSE"), "Apache License")
	assert.Regexp(t, `(?s)`+regexp.QuoteMeta(version.Repository)+`/security/advisories/new.*vulnerability.*within \d+ (working )?days`, text("SECURITY.md"))
	fuzzed := 0
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "dist"):
			return filepath.SkipDir
		case d.IsDir() || !d.Type().IsRegular():
			return nil
		}
		raw, err := os.ReadFile(file) // #nosec G304 G122 -- a file of the repository
		if err != nil {
			return err
		}
		if strings.HasSuffix(file, "_test.go") && strings.Contains(string(raw), "\nfunc Fuzz") {
			fuzzed++
		}
		// Programs of Linux, macOS and Windows, and archives.
		for _, magic := range []string{"\x7fELF", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe", "MZ\x90", "PK\x03\x04", "\x1f\x8b", "\x00asm"} {
			assert.False(t, strings.HasPrefix(string(raw), magic), "%s is a program or an archive, which nobody can review", file)
		}
		return nil
	}))
	assert.Positive(t, fuzzed)
}

// TestWorkflowsCallMake: what CI does, a contributor can do with the same words.
func TestWorkflowsCallMake(t *testing.T) {
	t.Parallel()
	root, err := pages.Root()
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(root, "Makefile")) // #nosec G304 -- a file of the repository
	require.NoError(t, err)
	parsed, texts := workflows(t)
	called := map[string]bool{}
	for name, w := range parsed {
		for job, j := range w.Jobs {
			for _, s := range j.Steps {
				for _, m := range makes.FindAllStringSubmatch(s.Run, -1) {
					called[m[1]] = true
				}
				if name != "release.yml" && s.Run != "" {
					assert.Regexp(t, `^make \S`, s.Run, "%s: job %s", name, job)
				}
			}
		}
		for _, m := range regexp.MustCompile(`target: \[(.+)\]`).FindAllStringSubmatch(texts[name], -1) {
			for _, target := range strings.Split(m[1], ", ") {
				called[target] = true
			}
		}
	}
	delete(called, "${{ matrix.target }}")
	for target := range called {
		assert.Regexp(t, `(?m)^`+target+`:`, string(raw), "the Makefile has no target %s", target)
	}
	for _, target := range []string{"lint", "test-unit", "test", "ci", "test-all", "release-test", "release", "publish", "keyless"} {
		assert.True(t, called[target], "no workflow calls make %s", target)
	}
}

// TestDependabotSeesEveryModule: an update that nobody proposes is not made.
func TestDependabotSeesEveryModule(t *testing.T) {
	t.Parallel()
	root, err := pages.Root()
	require.NoError(t, err)
	var config struct {
		Version int
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directory   string
			Directories []string
		}
	}
	raw, err := os.ReadFile(filepath.Join(root, ".github", "dependabot.yml")) // #nosec G304 -- a file of the repository
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, &config))
	require.Equal(t, 2, config.Version)
	var ecosystems, listed, modules []string
	for _, u := range config.Updates {
		ecosystems = append(ecosystems, u.Ecosystem)
		if u.Ecosystem == "gomod" {
			listed = append(listed, u.Directories...)
		}
	}
	assert.Subset(t, ecosystems, []string{"gomod", "github-actions", "docker"})
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		// The control planes' modules are generated for fixed releases of Kubernetes. That of Helm 4 follows the product's go.mod, and
		// is tidied with an overlay, which Dependabot does not know. Traefik's has stand-ins that fit the release in docs/examples.
		slash := filepath.ToSlash(file)
		if err == nil && d.Name() == "go.mod" && !strings.Contains(slash, "/test/plane/") &&
			!strings.Contains(slash, "/test/gateway/") && !strings.Contains(slash, "/installer/kube/helm/helm4/") {
			rel, err := filepath.Rel(root, filepath.Dir(file))
			modules = append(modules, path.Join("/", filepath.ToSlash(rel)))
			return err
		}
		return err
	}))
	slices.Sort(listed)
	slices.Sort(modules)
	assert.Equal(t, modules, listed)
}

// TestCodeOwnersNamePaths: a rule for a path that is gone protects nothing.
func TestCodeOwnersNamePaths(t *testing.T) {
	t.Parallel()
	root, err := pages.Root()
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(root, ".github", "CODEOWNERS")) // #nosec G304 -- a file of the repository
	require.NoError(t, err)
	rules := 0
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		rules++
		require.GreaterOrEqual(t, len(fields), 2, line)
		assert.Regexp(t, `^@[\w-]+(/[\w-]+)?$`, fields[1])
		if fields[0] != "*" {
			_, err := os.Stat(filepath.Join(root, filepath.FromSlash(fields[0])))
			require.NoError(t, err, fields[0])
		}
	}
	assert.Positive(t, rules)
}

// TestIssueForms: GitHub shows no form that it cannot read, and each asks for the support bundle, whose name csccm has.
func TestIssueForms(t *testing.T) {
	t.Parallel()
	root, err := pages.Root()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(root, ".github", "ISSUE_TEMPLATE", "*.yml"))
	require.NoError(t, err)
	forms := 0
	for _, file := range files {
		raw, err := os.ReadFile(file) // #nosec G304 -- a file of the repository
		require.NoError(t, err)
		if filepath.Base(file) == "config.yml" {
			continue
		}
		forms++
		var form struct {
			Name, Description string
			Labels            []string
			Body              []struct {
				Type, ID    string
				Attributes  map[string]any
				Validations map[string]bool
			}
		}
		require.NoError(t, yaml.UnmarshalStrict(raw, &form), file)
		assert.NotEmpty(t, form.Name, file)
		assert.NotEmpty(t, form.Description, file)
		seen := map[string]bool{}
		for _, field := range form.Body {
			assert.Contains(t, []string{"markdown", "textarea", "input", "dropdown", "checkboxes"}, field.Type, file)
			if field.Type == "markdown" {
				assert.NotEmpty(t, field.Attributes["value"], file)
				continue
			}
			assert.Regexp(t, `^[\w-]+$`, field.ID, file)
			assert.False(t, seen[field.ID], "%s: %s is there twice", file, field.ID)
			seen[field.ID] = true
			assert.NotEmpty(t, field.Attributes["label"], file)
		}
		assert.True(t, seen["bundle"], file)
		assert.Contains(t, string(raw), "`csccm support-bundle`", file)
	}
	assert.Equal(t, 2, forms)
}
