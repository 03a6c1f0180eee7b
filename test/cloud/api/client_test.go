// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSessionEnds: a session that the server has forgotten is replaced by another login, once.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	logins, refuse := 0, true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.NoError(t, r.ParseForm())
		switch {
		case r.Form.Get("command") == "login":
			logins++
			_, _ = fmt.Fprintf(w, `{"loginresponse":{"sessionkey":"s%d"}}`, logins)
		case refuse && r.Form.Get("sessionkey") == "s1", r.Form.Get("command") == "never":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"x":{"errorcode":401,"errortext":"unable to verify user credentials"}}`)
		default:
			_, _ = io.WriteString(w, `{"listzonesresponse":{"count":1,"zone":[{"name":"z"}]}}`)
		}
	}))
	defer s.Close()
	c := New(s.URL, Credentials{User: "admin", Password: "secret-word"})
	zones, err := c.List(t.Context(), "listZones", "zone", nil)
	if err != nil || len(zones) != 1 || logins != 2 {
		t.Errorf("%v, %v, %d logins", zones, err, logins)
	}
	if _, err := c.Call(t.Context(), "never", nil); Code(err) != http.StatusUnauthorized || logins != 3 {
		t.Errorf("%v, %d logins", err, logins)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", c.who, c.who, c.who, c.who), fmt.Sprint(err)} {
		if strings.Contains(text, "secret-word") {
			t.Errorf("the password is printed: %s", text)
		}
	}
}

func TestLoginPath(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "", "/": "", "ROOT": "", "root": "", "ROOT/k8s": "/k8s", "/k8s/": "/k8s", "k8s/a": "/k8s/a"} {
		assert.Equal(t, want, loginPath(in), in)
	}
}
