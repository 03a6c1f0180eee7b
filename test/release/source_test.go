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
	t                            *testing.T
	work, dir, program           string
	key, public, secret, keyring string
	env                          []string
	text                         bytes.Buffer // what the maintainer does, for the transcript
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
	root, work := filepath.Dir(module), t.TempDir()
	s := &source{t: t, work: work, dir: filepath.Join(work, "tree"), program: filepath.Join(work, "release")}
	s.run(root, "go", "build", "-trimpath", "-o", s.program, "./release")
	// All files that git would commit, without test/, which a release does not need.
	for name := range strings.SplitSeq(s.run(root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		if name == "" || strings.HasPrefix(name, "test/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		s.write(name, text)
	}
	s.git("init", "-q")
	s.key, s.public = filepath.Join(work, "cosign.key"), filepath.Join(work, "cosign.pub")
	s.say("The maintainer: a key pair, and its public key into the repository and its pages.")
	s.release("key", "--prefix", strings.TrimSuffix(s.key, ".key"))
	s.release("publish-key", "--public-key-file", s.public)
	s.commit("all of it")

	s.secret, s.keyring = pgp(t, work, "release")
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

func (s *source) run(dir, program string, args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), program, args...)
	cmd.Dir = dir
	// Without cgo, like the product, so that both use the same entries of the build cache.
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"COSIGN_PASSWORD="+password, "HELM_KEY_PASSPHRASE="+password)
	cmd.Env = append(cmd.Env, s.env...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%s %v: %v\n%s%s", program, args, err, out, errs.Bytes())
	}
	return string(out)
}

func (s *source) git(args ...string) {
	s.t.Helper()
	s.run(s.dir, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
}

func (s *source) commit(message string) {
	s.t.Helper()
	s.git("add", "-A")
	s.git("commit", "-q", "-m", message)
}

func (s *source) say(text string) { fmt.Fprintf(&s.text, "\n# %s\n", text) }

// tag tags the last commit.
func (s *source) tag(version string) {
	s.t.Helper()
	s.git("tag", "v"+version)
	fmt.Fprintf(&s.text, "\n$ git tag v%s\n", version)
}

// release runs the release program on the tree.
func (s *source) release(args ...string) string {
	s.t.Helper()
	out := s.run(s.dir, s.program, args...)
	fmt.Fprintf(&s.text, "\n$ release %s\n%s", strings.Join(args, " "), out)
	return out
}

// transcript returns what the maintainer did, with the folders of a maintainer.
func (s *source) transcript() string {
	return strings.ReplaceAll(s.text.String(), s.work, "/home/maintainer")
}
