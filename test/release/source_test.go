// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/csccm/csccm/test/plane"
)

// source is a copy of this checkout in its own git repository, with the keys that sign its releases.
type source struct {
	t                    *testing.T
	root, work, dir      string
	secret, keyring      string // of the chart's provenance file
	key, public, signing string // of cosign, in a rehearsal
	env                  []string
	text                 bytes.Buffer // commands of the maintainer, for the transcript
}

const (
	identity = "release@example.org"
	password = "not-a-secret-of-anybody"
)

func newSource(t *testing.T) *source {
	t.Helper()
	module, err := plane.ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	s := &source{t: t, root: filepath.Dir(module), work: work, dir: filepath.Join(work, "tree")}
	// All files that git would commit, without test/, which a release does not need.
	for name := range strings.SplitSeq(s.run(s.root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		if name == "" || strings.HasPrefix(name, "test/") {
			continue
		}
		file := filepath.Join(s.root, name)
		info, err := os.Stat(file)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s.write(name, text)
		if err := os.Chmod(filepath.Join(s.dir, name), info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	s.git("init", "-q")
	s.git("remote", "add", "origin", "https://github.com/csccm/csccm") // goreleaser asks for its name
	s.secret, s.keyring = pgp(t, work, "release")
	passphrase := filepath.Join(work, "passphrase")
	if err := os.WriteFile(passphrase, []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = []string{
		"PATH=" + filepath.Dir(tools.helm) + ":" + filepath.Join(s.root, "bin") + ":" + os.Getenv("PATH"),
		"CHART_SIGN=--sign --key release --keyring " + s.secret + " --passphrase-file " + passphrase,
	}
	return s
}

// pgp creates a key for the chart's provenance and returns the paths of two keyrings: with the secret and with the
// public key.
func pgp(t *testing.T, dir, name string) (secret, public string) {
	t.Helper()
	entity, err := openpgp.NewEntity(name, "", identity, nil)
	if err != nil {
		t.Fatal(err)
	}
	var open, closed bytes.Buffer
	if err := entity.Serialize(&open); err != nil {
		t.Fatal(err)
	}
	if err := entity.EncryptPrivateKeys([]byte(password), nil); err != nil {
		t.Fatal(err)
	}
	if err := entity.SerializePrivateWithoutSigning(&closed, nil); err != nil {
		t.Fatal(err)
	}
	secret, public = filepath.Join(dir, name+".secret.pgp"), filepath.Join(dir, name+".pgp")
	for file, text := range map[string][]byte{secret: closed.Bytes(), public: open.Bytes()} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return secret, public
}

func (s *source) write(name string, text []byte) {
	s.t.Helper()
	file := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// try runs a program without cgo, like the product, so that both use the same entries of the build cache.
func (s *source) try(dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(s.t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"COSIGN_PASSWORD="+password)
	cmd.Env = append(cmd.Env, s.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s *source) run(dir, program string, args ...string) string {
	s.t.Helper()
	out, err := s.try(dir, program, args...)
	if err != nil {
		s.t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return out
}

func (s *source) git(args ...string) {
	s.t.Helper()
	s.run(s.dir, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
}

// tag commits the tree and tags the commit.
func (s *source) tag(version string) {
	s.t.Helper()
	s.git("add", "-A")
	s.git("commit", "-q", "--allow-empty", "-m", version)
	s.git("tag", "v"+version)
	fmt.Fprintf(&s.text, "\n$ git tag v%s\n", version)
}

func (s *source) say(text string) { fmt.Fprintf(&s.text, "\n# %s\n", text) }

// step runs a step of release/steps, or a tool, in the tree.
func (s *source) step(program string, args ...string) string {
	s.t.Helper()
	fmt.Fprintf(&s.text, "\n$ %s %s\n", program, strings.Join(args, " "))
	if program == "release/steps" {
		program = filepath.Join(s.dir, program)
	} else {
		program = filepath.Join(s.root, "bin", program)
	}
	out := s.run(s.dir, program, args...)
	s.text.WriteString(out)
	return out
}

// refused runs a tool that must fail with an output that contains want.
func (s *source) refused(want, program string, args ...string) {
	s.t.Helper()
	fmt.Fprintf(&s.text, "\n$ %s %s\n", program, strings.Join(args, " "))
	out, err := s.try(s.dir, filepath.Join(s.root, "bin", program), args...)
	s.text.WriteString(out)
	if err == nil || !strings.Contains(out, want) {
		s.t.Fatalf("%s %v: want an error with %q, got %v\n%s", program, args, want, err, out)
	}
}

// transcript returns the commands of the maintainer, with the folders of a maintainer.
func (s *source) transcript() string {
	return strings.ReplaceAll(s.text.String(), s.work, "/home/maintainer")
}
