// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// Settings are keys of the cloud-config with their values. A key without a value has its default again.
type Settings map[string]string

// Format shows no value, for every verb: some are secret.
func (Settings) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(settings)") }

// Layers are all that says what the cloud-config is to hold.
type Layers struct {
	Found   *cloudstack.Config // what is there; nil for nothing
	File    []byte             // a cloud-config that parse takes; may be empty
	Answers Settings           // of people, and of the environment
	Flags   Settings
}

// Merge returns flags over answers over the file over what is there. Whoever fills the layers has checked the values.
func (l *Layers) Merge() *cloudstack.Config {
	out := cloudconfig.Default()
	if l.Found != nil {
		out = *l.Found
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

// Given is Merge without what is there.
func (l *Layers) Given() *cloudstack.Config {
	return (&Layers{File: l.File, Answers: l.Answers, Flags: l.Flags}).Merge()
}

// Answer notes what somebody answered.
func (l *Layers) Answer(name, value string) {
	answers := Settings{name: value}
	for other := range l.Answers {
		if other != name {
			answers[other] = l.Answers[other]
		}
	}
	l.Answers = answers
}

// ReadFile reads a cloud-config file, and refuses one that is none.
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

// otherFiles are files of other programs that people take for a cloud-config.
var otherFiles = []struct {
	has  *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`(?m)^kind:`),
		"a Kubernetes manifest, such as the Secret of Cluster API's provider for CloudStack"},
	{regexp.MustCompile(`(?m)^\s*(prompt|asyncblock|profile|verifycert)\s*=`),
		"the configuration of cmk (CloudMonkey)"},
	{regexp.MustCompile(`(?m)^\s*(api_url|provider\s+"cloudstack")`), "a file of Terraform"},
	{regexp.MustCompile(`(?mi)^\s*(endpoint|apikey|secretkey)\s*=`), "a cloudstack.ini of Terraform, Ansible or cs"},
	{regexp.MustCompile(`\[Global\]\\n`), "a cloud-config with \\n in place of line breaks"},
}

// parse reads a cloud-config. Its error says which other file it is, where that is known.
func parse(text []byte) (*cloudstack.Config, error) {
	config, err := cloudconfig.Parse(bytes.NewReader(text))
	if err == nil {
		return config, nil
	}
	for _, other := range otherFiles {
		if other.has.Match(text) {
			return nil,
				fmt.Errorf("this is %s; write a cloud-config with its URL and keys: section [Global] with api-url, "+
					"api-key and secret-key", other.what)
		}
	}
	return nil, err
}
