// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	ocireg "github.com/google/go-containerregistry/pkg/registry"

	"github.com/csccm/csccm/test/testenv"
)

// private is a private registry, with a TLS certificate of its own CA and a login.
type private struct {
	host string
	// docker is a folder for DOCKER_CONFIG that holds the login; ca is the path of the CA certificate (PEM).
	docker, ca string
}

const login = "ci"

// noLogin matches the errors of the image library and of Helm for a missing login.
var noLogin = regexp.MustCompile(`UNAUTHORIZED|basic credential not found`)

func newPrivate(t *testing.T) *private {
	t.Helper()
	inside := ocireg.New(ocireg.Logger(log.New(io.Discard, "", 0)), ocireg.WithReferrersSupport(true))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, given, _ := r.BasicAuth(); user != login || given != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
			return
		}
		inside.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	p := &private{host: strings.TrimPrefix(server.URL, "https://"), docker: dir, ca: filepath.Join(dir, "ca.pem")}
	auth := base64.StdEncoding.EncodeToString([]byte(login + ":" + password))
	for file, text := range map[string]string{
		p.ca:                              string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
		filepath.Join(dir, "config.json"): fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, p.host, auth),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// smallController replaces the controller in the source tree, because this test does not need the real program.
const smallController = `package main

import (
	"fmt"
	"os"
)

func main() { fmt.Println("Usage:", os.Args[0]) }
`

// smallManual is built with the tag manual only, as the file of the real program.
const smallManual = `//go:build manual

package main

import "os"

func init() {
	if err := os.WriteFile(os.Args[1]+"/` + name + `.1", []byte(".TH ` + name + `"), 0o600); err != nil {
		panic(err)
	}
	os.Exit(0)
}
`

// A release is published to a private registry with its own CA. After one helm registry login, with the password from
// stdin, both helm and csccm can read it; without a login both fail.
func TestPrivateRegistry(t *testing.T) {
	t.Parallel()
	if tools.skip != "" {
		t.Skip(tools.skip)
	}
	s, p := newSource(t), newPrivate(t)
	if err := os.RemoveAll(filepath.Join(s.dir, "cmd", name)); err != nil {
		t.Fatal(err)
	}
	s.write("cmd/"+name+"/main.go", []byte(smallController))
	s.write("cmd/"+name+"/manual.go", []byte(smallManual))
	s.commit("a small controller")
	s.git("tag", "v"+candidate)
	s.release("test", "true")
	dist := filepath.Join(t.TempDir(), "dist")
	s.release("make", "--key", s.key, "--pgp-keyring", s.secret, "--pgp-identity", identity, "--govulncheck", "true",
		"--only", name, "--platform", "linux/"+runtime.GOARCH, "--registry", p.host+"/csccm", "--output", dist)
	s.env = []string{"DOCKER_CONFIG=" + p.docker, "SSL_CERT_FILE=" + p.ca}
	said := s.release("publish", "--dir", dist, "--key", s.key, "--registry", p.host+"/csccm")

	programs, err := testenv.Build(t.Context(), testenv.BuildOptions{Dir: os.Getenv("CSCCM_BIN_DIR"), LDFlags: os.Getenv("CSCCM_LDFLAGS")})
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	run := func(stdin, program string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Stdin = home, strings.NewReader(stdin)
		cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin", "SSL_CERT_FILE=" + p.ca}
		out, err := cmd.CombinedOutput()
		said += string(out)
		return string(out), err
	}
	image, chart := p.host+"/csccm/"+name+":v"+candidate, "oci://"+p.host+"/csccm/charts/"+name
	commands := [][]string{
		{programs.CLI, "verify", "image", "--public-key-file", s.public, image, chart + ":" + candidate},
		{programs.CLI, "template", "--chart", chart, "--version", candidate, "--kube-version", "v1.37.1"},
		{tools.helm, "pull", chart, "--version", candidate, "--ca-file", p.ca, "--verify", "--keyring", s.keyring},
		{tools.helm, "template", name, chart, "--version", candidate, "--ca-file", p.ca, "--kube-version", "v1.37.1"},
	}
	for _, c := range commands {
		if out, err := run("", c[0], c[1:]...); err == nil || !noLogin.MatchString(out) {
			t.Errorf("without a login %v: %v\n%s", c, err, out)
		}
	}
	if out, err := run(password+"\n", tools.helm, "registry", "login", p.host, "--username", login, "--password-stdin", "--ca-file", p.ca); err != nil {
		t.Fatalf("login: %v\n%s", err, out)
	}
	for _, c := range commands {
		if out, err := run("", c[0], c[1:]...); err != nil {
			t.Errorf("%v: %v\n%s", c, err, out)
		}
	}
	if strings.Contains(said, password) {
		t.Error("the password is in the output")
	}
}
