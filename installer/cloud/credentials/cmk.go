// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack/ini"
)

// CMKCurrent asks for the profile that the file itself says is in use.
const CMKCurrent = "current"

// CMKProfile is a profile of CloudMonkey's configuration. It prints
// as its name.
type CMKProfile struct {
	Name, URL                  string
	Username, Password, Domain string
	Keys                       Keys
}

// Format hides password and keys, for every verb.
func (p CMKProfile) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "cmk profile "+p.Name) }

// ReadCMK reads a profile of cmk's configuration file (usually ~/.cmk/config).
// Only what is needed is kept; no value is in an error.
func ReadCMK(path, profile string) (*CMKProfile, error) {
	fix := "name cmk's configuration with --cmk-config, usually ~/.cmk/config"
	text, err := os.ReadFile(path) // #nosec G304 -- the user names it
	if err != nil {
		return nil, &Error{What: "cannot read cmk's configuration " + path, Fix: fix, Code: report.ExitUsage, Err: withoutPath(err)}
	}
	sections := map[string]map[string]string{}
	var section map[string]string
	for i, l := range ini.Scan(string(text)) {
		switch {
		case l.Kind == ini.Blank:
		case l.Kind == ini.Section:
			if sections[l.Name] == nil {
				sections[l.Name] = map[string]string{}
			}
			section = sections[l.Name]
		case l.Kind == ini.Key && section != nil:
			section[strings.ToLower(l.Name)] = l.Value // as written: cmk knows no quotes
		default:
			return nil, &Error{What: fmt.Sprintf("%s line %d is neither [section] nor key = value", path, i+1), Fix: fix, Code: report.ExitUsage}
		}
	}
	core := sections["core"]
	delete(sections, "core")
	if _, named := sections[profile]; profile == CMKCurrent && !named {
		profile = core["profile"]
	}
	s, ok := sections[profile]
	if !ok {
		return nil, report.Usage(fmt.Sprintf("%s has no profile %q", path, profile),
			"name one of these: "+some(slices.Collect(maps.Keys(sections))))
	}
	p := &CMKProfile{
		Name: profile, URL: s["url"], Username: s["username"], Password: s["password"], Domain: s["domain"],
		Keys: Keys{APIKey: s["apikey"], SecretKey: s["secretkey"]},
	}
	if p.URL == "" {
		return nil, &Error{What: fmt.Sprintf("profile %q of %s has no url", profile, path), Fix: "set it with cmk set url", Code: report.ExitUsage}
	}
	return p, nil
}
