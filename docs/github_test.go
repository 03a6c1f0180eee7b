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

var makes = regexp.MustCompile(`\bmake (\$\{\{ matrix\.target \}\}|[a-z0-9-]+)`)

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
					assert.Regexp(t, `^(sudo .* )?(make \S|\.ci/run$)`, s.Run, "%s: job %s", name, job)
				}
			}
		}
		for _, m := range regexp.MustCompile(`(?:target|run): \[(.+)\]`).FindAllStringSubmatch(texts[name], -1) {
			for _, target := range strings.Split(m[1], ", ") {
				if target = strings.TrimPrefix(target, "make "); !strings.Contains(target, " ") {
					called[target] = true
				}
			}
		}
	}
	delete(called, "${{ matrix.target }}")
	for target := range called {
		assert.Regexp(t, `(?m)^`+target+`:`, string(raw), "the Makefile has no target %s", target)
	}
	for _, target := range []string{"lint", "test", "real-nodes", "cloud", "test-all", "release", "release-rehearsal"} {
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
		// The control planes' modules are generated for fixed releases of Kubernetes. Traefik's has stand-ins that fit the release in docs/examples.
		slash := filepath.ToSlash(file)
		if err == nil && d.Name() == "go.mod" && !strings.Contains(slash, "/test/plane/") && !strings.Contains(slash, "/test/gateway/") {
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
