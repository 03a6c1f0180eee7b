// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/release/internal/sign"
	"github.com/csccm/csccm/release/verify"
)

// program is a program that supports the commands that a release runs: help and completion.
const program = `package main

import (
	"fmt"
	"os"

	"github.com/csccm/csccm/pkg/version"
)

func main() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "completion":
		fmt.Println("complete NAME in", os.Args[2])
	default:
		fmt.Println(version.Version, version.Commit, version.Date)
	}
}
`

// manualPage is built with the tag manual only, as in the product.
const manualPage = `//go:build manual

package main

import "os"

func init() {
	if err := os.WriteFile(os.Args[1]+"/NAME.1", []byte(".TH NAME"), 0o600); err != nil {
		panic(err)
	}
	os.Exit(0)
}
`

const cosignPassword = "geheim-cosign"

// fixture is a small source tree that is released like the product. It has the product's chart.
type fixture struct {
	t   *testing.T
	dir string
	// key, public and the keyrings are names of files.
	key, public, pgpSecret, pgpPublic string
}

// newTree commits files to a new repository, with the pages that name the key of its releases. Its private key is f.key.
func newTree(t *testing.T, files map[string]string) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: filepath.Join(t.TempDir(), "tree")}
	for name, text := range files {
		f.write(name, text)
	}
	for _, page := range keyPages {
		f.write(page, "before\n"+keyBegin+keyEnd+"after\n")
	}
	keys := t.TempDir()
	f.key, f.public = filepath.Join(keys, "cosign.key"), filepath.Join(keys, "cosign.pub")
	key, err := sign.Generate()
	require.NoError(t, err)
	private, err := key.Encrypt([]byte(cosignPassword))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(f.key, private, 0o600))
	require.NoError(t, os.WriteFile(f.public, key.Public().PEM(), 0o600))
	f.must("publish-key", "--public-key-file", f.public)
	f.git("init", "-q")
	f.commit("one")
	return f
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	files := map[string]string{
		"go.mod":                 "module github.com/csccm/csccm\n\ngo 1.26\n",
		"pkg/version/version.go": "package version\n\nvar Version, Commit, Date string\n",
		"LICENSE":                "licence\n",
		"CHANGELOG.md":           "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- All of it.\n",
	}
	for _, p := range products {
		files["cmd/"+p.Name+"/main.go"] = strings.ReplaceAll(program, "NAME", p.Name)
		files["cmd/"+p.Name+"/manual.go"] = strings.ReplaceAll(manualPage, "NAME", p.Name)
	}
	f := newTree(t, files)
	require.NoError(t, os.CopyFS(filepath.Join(f.dir, "charts", charts.Name), os.DirFS("../charts/"+charts.Name)))
	hub, err := os.ReadFile("../charts/" + hubFile)
	require.NoError(t, err)
	f.write("charts/"+hubFile, string(hub))
	f.commit("chart")
	t.Setenv(passwordVariable, cosignPassword)
	t.Setenv(pgpVariable, "geheim-pgp")
	f.pgpSecret, f.pgpPublic = pgpKeyrings(t, t.TempDir())
	return f
}

// publicKey returns the key that verifies the fixture's releases.
func (f *fixture) publicKey() *verify.Key {
	f.t.Helper()
	text, err := os.ReadFile(f.public)
	require.NoError(f.t, err)
	key, err := verify.ParseKey(text)
	require.NoError(f.t, err)
	return key
}

func pgpKeyrings(t *testing.T, dir string) (secret, public string) {
	t.Helper()
	entity, err := openpgp.NewEntity("csccm", "", "release@example.org", nil)
	require.NoError(t, err)
	write := func(name string, serialize func(io.Writer) error) string {
		var out bytes.Buffer
		require.NoError(t, serialize(&out))
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, out.Bytes(), 0o600))
		return file
	}
	public = write("public.pgp", entity.Serialize)
	require.NoError(t, entity.EncryptPrivateKeys([]byte("geheim-pgp"), nil))
	return write("secret.pgp", func(w io.Writer) error { return entity.SerializePrivateWithoutSigning(w, nil) }), public
}

func (f *fixture) write(name, text string) {
	f.t.Helper()
	file := filepath.Join(f.dir, name)
	require.NoError(f.t, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(f.t, os.WriteFile(file, []byte(text), 0o600))
}

func (f *fixture) git(args ...string) {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(f.t, err, string(out))
}

func (f *fixture) commit(message string) {
	f.t.Helper()
	f.git("add", "-A")
	f.git("commit", "-q", "-m", message)
}

// release runs a command on the fixture's tree and returns its output.
func (f *fixture) release(args ...string) (string, error) {
	f.t.Helper()
	var out bytes.Buffer
	cmd := newCommand(&out, &out)
	cmd.SetArgs(append([]string{"--source", f.dir}, args...))
	err := cmd.ExecuteContext(f.t.Context())
	return out.String(), err
}

func (f *fixture) must(args ...string) string {
	f.t.Helper()
	out, err := f.release(args...)
	require.NoError(f.t, err, out)
	return out
}

// make makes a release of the tree for this machine's architecture in a new directory.
func (f *fixture) make(args ...string) (dir, out string) {
	f.t.Helper()
	dir = filepath.Join(f.t.TempDir(), "dist")
	out = f.must(append([]string{
		"make", "--output", dir, "--platform", "linux/" + runtime.GOARCH, "--govulncheck", "true", "--key", f.key,
		"--registry", "registry.example.org/csccm", "--pgp-keyring", f.pgpSecret, "--pgp-identity", "release@example.org",
	}, args...)...)
	return dir, out
}

// contents returns the content of the files below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		relative, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(relative)] = string(data)
		return err
	}))
	return all
}
