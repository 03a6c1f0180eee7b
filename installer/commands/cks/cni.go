// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// CNIList is the result of csccm cks cni list. The fields of a configuration are named as in the CloudStack API.
type CNIList struct {
	SchemaVersion int                  `json:"schemaVersion"`
	Configs       []cloudapi.CNIConfig `json:"cniConfigurations"`
}

// CNIConfigs lists the CNI configurations.
func (s *Service) CNIConfigs(ctx context.Context) (*CNIList, error) {
	if err := s.needs(ctx, &Options{}, "csccm cks cni", flexible); err != nil {
		return nil, err
	}
	all, err := s.API.ListCNIConfigs(ctx, s.Project)
	return &CNIList{schemaVersion, append([]cloudapi.CNIConfig{}, all...)}, explain("list the CNI configurations", err)
}

// Write prints the list as a table.
func (l *CNIList) Write(w io.Writer, style report.Style) error {
	t := report.Table{Header: []string{"NAME", "ACCOUNT", "VARIABLES", "ID"}}
	for _, n := range l.Configs {
		t.Add(n.Name, ownerOf(&n), dash(strings.Join(variables(n.Params), ", ")), n.ID)
	}
	return t.Write(w, style)
}

func namesOfCNI(n *cloudapi.CNIConfig) []string { return []string{n.ID, n.Name} }

// ownerOf returns the project or the account that owns a configuration.
func ownerOf(n *cloudapi.CNIConfig) string {
	if n.Project != "" {
		return "project " + n.Project
	}
	return n.Account + " in " + n.Domain
}

// variables returns the names in a list of CloudStack, which are separated by commas or spaces.
func variables(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// AddCNI registers the user data in a file as a CNI configuration.
func (s *Service) AddCNI(ctx context.Context, name, file string) error {
	text, err := os.ReadFile(file) // #nosec G304 -- the user names it
	if err != nil {
		return report.Usage("name a file with cloud-config user data", "--file: %v", err)
	}

	declared, err := readUserData(text)
	if err != nil {
		return report.Usage(
			"CloudStack appends the file to the user data of the control nodes: a cloud-config whose runcmd "+
				"installs the network plugin",
			"--file %s: %v", file, err,
		)
	}

	l, err := s.CNIConfigs(ctx)
	if err != nil {
		return err
	}

	data := base64.StdEncoding.EncodeToString(text)
	p := s.plan("add", "CNI configuration", name)
	for _, n := range l.Configs {
		if n.Name == name {
			if same := n.UserData == data && slices.Equal(variables(n.Params), declared); !same {
				return report.Usage(
					"choose another name, or delete it first: csccm cks cni delete "+name,
					"CNI configuration %s of %s already exists with other content; nothing was changed",
					name, ownerOf(&n),
				)
			}
			p.ID, p.Action, p.Done = n.ID, ActionNone, true
		}
	}

	p.Changes = changes{{"variables", "", dash(strings.Join(declared, ", "))}}
	f := cloudstack.Params{"name": name, "cniconfig": data}.
		Set("params", strings.Join(declared, ",")).
		Set("projectid", s.Project)
	return s.call(ctx, p, "registerCniConfiguration", f)
}

// DeleteCNI deletes a CNI configuration. The plan names the owner, because CloudStack does not check who owns the
// configuration.
func (s *Service) DeleteCNI(ctx context.Context, name string) error {
	l, err := s.CNIConfigs(ctx)
	if err != nil {
		return err
	}

	n, err := pick("CNI configuration", "", name, l.Configs, namesOfCNI)
	if err != nil {
		return err
	}

	clusters, err := s.clusters(ctx)
	if err != nil {
		return err
	}

	p := s.plan("delete", "CNI configuration", n.Name)
	p.ID, p.Changes = n.ID, changes{{"account", ownerOf(n), "deleted"}}
	for _, k := range clusters {
		if k.CNIConfigID == n.ID {
			p.Findings = append(p.Findings, ckscheck.Finding{
				Code:     "cni-used",
				Severity: ckscheck.Error,
				Object:   "cluster " + k.Name,
				What:     "it was made with the configuration",
				Remedy:   "delete the cluster first",
			})
		}
	}

	return s.call(ctx, p, "deleteCniConfiguration", cloudstack.Params{"id": n.ID}.Set("projectid", s.Project))
}

// maxUserData is the maximum length of the parameter cniconfig, in characters of base64.
const maxUserData = 1 << 20

var (
	header = regexp.MustCompile(`^(## template: *jinja\r?\n)?#cloud-config[ \t\r]*\n`)
	// expression matches what Jinja replaces by a value, such as {{ ds.meta_data.PEER }}.
	expression = regexp.MustCompile(`{{-? *(?:ds\.meta_data\.)?([A-Za-z_]\w*)[^}]*}}`)
	// statement matches a statement of Jinja, such as {% if x %}, which leaves no text behind.
	statement = regexp.MustCompile(`{%[^%]*%}`)
)

// metadata are the variables that CloudStack gives to every VM.
var metadata = strings.Fields("availability_zone cloud_identifier cloud_name hypervisor_host_name instance_id " +
	"local_hostname local_ipv4 public_hostname public_ipv4 public_keys service_offering vm_id ds v1")

// readUserData checks the user data of a network plugin, and returns the variables in it.
func readUserData(text []byte) (declared []string, err error) {
	var body any
	plain := statement.ReplaceAll(expression.ReplaceAll(text, []byte("x")), nil)

	switch {
	case base64.StdEncoding.EncodedLen(len(text)) > maxUserData:
		return nil, fmt.Errorf(
			"it has %d bytes, and CloudStack takes %d", len(text), base64.StdEncoding.DecodedLen(maxUserData),
		)
	case bytes.IndexByte(text, 0) >= 0 || !header.Match(text):
		return nil, fmt.Errorf("it is not cloud-config user data: its first line must be #cloud-config")
	}

	if err := yaml.Unmarshal(plain, &body); err != nil {
		return nil, fmt.Errorf("it is not YAML: %w", err)
	}

	if body == nil {
		return nil, fmt.Errorf("it has no content after #cloud-config")
	}

	for _, m := range expression.FindAllSubmatch(text, -1) {
		if name := string(m[1]); !slices.Contains(declared, name) && !slices.Contains(metadata, name) {
			declared = append(declared, name)
		}
	}

	slices.Sort(declared)
	return declared, nil
}
