// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/testenv/recordings"
	"github.com/csccm/csccm/test/internal/must"
)

// Recorder writes one recording for each new shape, with ids and secrets replaced.
type Recorder struct {
	dir   string
	count map[string]int
	seen  map[*regexp.Regexp]map[string]string // replacements by original text, so that equal texts stay equal
}

// NewRecorder creates the folder and returns a recorder that writes to it.
func NewRecorder(dir string) (*Recorder, error) {
	return &Recorder{
		dir:   dir,
		count: map[string]int{},
		seen:  map[*regexp.Regexp]map[string]string{},
	}, os.MkdirAll(dir, 0o750)
}

// Write writes an exchange.
func (r *Recorder) Write(
	command, caller string, params url.Values, status int, contentType string, answer any,
) (err error) {
	defer must.Return(&err)
	of, end := command, ""
	// recordings of jobs have the job's command in their names
	if envelope, _ := answer.(map[string]any); command == "queryAsyncJobResult" {
		for _, content := range envelope {
			if m, _ := content.(map[string]any); classOf(m) != "" {
				class := classOf(m)
				state := cmp.Or(map[any]string{0.0: "pending", 1.0: "success"}[m["jobstatus"]], "failure")
				of, end = strings.ToLower(class[:1])+class[1:], ".job-"+state
			}
		}
	}

	r.count[of+end]++
	p := map[string]any{}
	for k, v := range params {
		p[k] = strings.Join(v, ",")
	}

	// Remove the parameters that the existing recordings omit.
	for _, k := range []string{"command", "response", "apikey", "signature", "sessionkey"} {
		delete(p, k)
	}

	name := fmt.Sprintf("%s.new-%d%s", of, r.count[of+end], end)
	clean, _ := r.clean("", p).(map[string]any)
	text := must.Get(json.MarshalIndent(recordings.Recording{
		Case: name, Command: command, Caller: caller, Params: clean, HTTPStatus: status, ContentType: contentType,
		Response: must.Get(json.Marshal(r.clean("", answer))),
	}, "", " "))

	return os.WriteFile(filepath.Join(r.dir, name+".json"), append(text, '\n'), 0o600)
}

var (
	uuid = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	ipv4 = regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b`)
	mac  = regexp.MustCompile(`(?i)\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b`)
	// keyLike matches values with the length and characters of API keys, wherever they occur.
	keyLike = regexp.MustCompile(`[A-Za-z0-9_-]{64,}`)

	// secrets are fields and parameters that are never written. places are those that name the operator's machines and
	// sites.
	secrets = strings.Fields(`apikey secretkey signature sessionkey password privatekey userapikey certificate certchain jsessionid username email
		sshkey userdata publickey`)
	places = strings.Fields("zonename hostname podname clustername instancename domain domainpath domainname " +
		"networkdomain firstname lastname")
)

const redacted = "REDACTED"

// clean returns a copy of a JSON value in which ids, addresses, secrets and names of sites are replaced. key is the
// name of the value's field.
func (r *Recorder) clean(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for k, item := range v {
			m[k] = r.clean(strings.ToLower(k), item)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = r.clean(key, item)
		}
		return list
	}

	s, text := v.(string)
	switch {
	case v == nil || text && s == "":
		return v
	case slices.Contains(secrets, key):
		return redacted
	case !text:
		return v
	case slices.Contains(places, key):
		return "removed"
	}

	s = r.replace(uuid, s, "00000000-0000-4000-8000-%012d")
	s = r.replace(mac, s, "02:00:00:00:00:%02x")
	s = r.replace(ipv4, s, "203.0.113.%d")
	if !strings.Contains(s, "-0000-4000-8000-") {
		s = keyLike.ReplaceAllString(s, redacted)
	}

	return s
}

// replace replaces each match by a number in a format. It keeps netmasks and matches that are not addresses.
func (r *Recorder) replace(what *regexp.Regexp, s, format string) string {
	if r.seen[what] == nil {
		r.seen[what] = map[string]string{}
	}

	return what.ReplaceAllStringFunc(s, func(found string) string {
		ip, err := netip.ParseAddr(found)
		if what == ipv4 && (err != nil || ip.IsUnspecified() || ip.IsLoopback() || strings.HasPrefix(found, "255.")) {
			return found
		}
		found = strings.ToLower(found)
		n := 1 + len(r.seen[what])
		if what != uuid {
			n = 1 + n%253
		}
		if r.seen[what][found] == "" {
			r.seen[what][found] = fmt.Sprintf(format, n)
		}
		return r.seen[what][found]
	})
}
