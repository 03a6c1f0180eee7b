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
	"strings"
	"testing"

	ocireg "github.com/google/go-containerregistry/pkg/registry"
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

// run runs a program of a user who trusts the registry's CA.
func (p *private) run(t *testing.T, home, stdin, program string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Stdin = home, strings.NewReader(stdin)
	cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin", "SSL_CERT_FILE=" + p.ca}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
