// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// Settings are keys of the cloud-config with their values. A key without a value is reset to its default.
type Settings map[string]string

// Format hides the values, for every verb: some are secret.
func (Settings) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(settings)") }

// Layers are the operator's values for a cloud-config, in ascending order of precedence.
type Layers struct {
	File    []byte   // a cloud-config that parse accepts; may be empty
	Answers Settings // from prompts, key files and the environment
	Flags   Settings
}

// Over returns a cloud-config in which the layers override an existing one: flags override answers, answers the file,
// and the file the existing one. If found is nil, the layers override the defaults. The values must already be valid.
func (l *Layers) Over(found *cloudstack.Config) *cloudstack.Config {
	out := cloudconfig.Default()
	if found != nil {
		out = *found
	}
	if len(l.File) > 0 {
		_ = out.Read(bytes.NewReader(l.File))
	}
	for _, settings := range []Settings{l.Answers, l.Flags} {
		for name, value := range settings {
			_ = out.Set(name, value)
		}
	}
	return &out
}

// Answer records an answer. It copies Answers, because other copies of l may share the map.
func (l *Layers) Answer(name, value string) {
	answers := Settings{}
	maps.Copy(answers, l.Answers)
	answers[name] = value
	l.Answers = answers
}

// ReadFile returns the text of a cloud-config file, or an error if the file is not one.
func ReadFile(file string) ([]byte, error) {
	text, err := os.ReadFile(file) // #nosec G304 -- the user names it
	if err != nil {
		return nil, report.Usage("name a file that exists and that you may read", "--cloud-config: %w", err)
	}
	if _, err := parse(text); err != nil {
		return nil, report.Usage("correct the file; README.md shows one", "--cloud-config %s: %w", file, err)
	}
	return text, nil
}

// otherFiles are files that users mistake for a cloud-config.
var otherFiles = []struct{ pattern, what string }{
	{`(?m)^\s*"?kind"?:`, "a Kubernetes manifest, such as the Secret of Cluster API's provider for CloudStack"},
	{`(?m)^\s*(\w*api_url|variable\s+"|provider\s+"cloudstack")`, "a file of Terraform"},
	{`(?m)^\s*(prompt|asyncblock|profile|verifycert)\s*=`, "the configuration of cmk (CloudMonkey)"},
	{`(?mi)^\s*(endpoint|apikey|secretkey|(export\s+)?CLOUDSTACK_\w+)\s*=`,
		"a cloudstack.ini, or a file of environment variables, of Terraform, Ansible or cs"},
	{`\[Global\]\\n|^W0dsb2Jhb|\x00`, "a cloud-config in base64 or UTF-16, or with \\n in place of line breaks"},
}

// ownSection matches the section of a cloud-config, whose errors name the line.
var ownSection = regexp.MustCompile(`(?mi)^\[global\]\s*$`)

// parse parses a cloud-config. If the text is a known other file, the error says which.
func parse(text []byte) (*cloudstack.Config, error) {
	config, err := cloudconfig.Parse(bytes.NewReader(text))
	if err == nil || ownSection.Match(text) {
		return config, err
	}
	for _, other := range otherFiles {
		if regexp.MustCompile(other.pattern).Match(text) {
			return nil,
				fmt.Errorf("this is %s; write a cloud-config with its URL and keys: section [Global] with api-url, "+
					"api-key and secret-key", other.what)
		}
	}
	return nil, err
}
