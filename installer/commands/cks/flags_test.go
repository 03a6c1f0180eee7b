// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/simulator"
)

// fill sets a flag to some value.
func (f *Flag) fill() {
	switch to := f.Value.(type) {
	case *string:
		*to = "x"
	case *int:
		*to = 2
	case *bool:
		*to = true
	case *[]string:
		*to = []string{"X=y"}
	}
}

// A flag that the CloudStack release does not support is refused by name before any other call, because the server
// would ignore the parameter.
func TestFlagsThatTheReleaseLacks(t *testing.T) {
	t.Parallel()
	operations := map[string]Operation{}
	for _, op := range []Operation{Create, Scale, Upgrade, Start, Stop, Delete, AddNodes, RemoveNodes} {
		operations[op.name] = op
	}

	for _, version := range simulator.Releases() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			world := testenv.CKSWorld(t)
			world.Version = version
			cloud := testenv.NewCloud(t, world)
			s, _ := serviceOf(t, cloud)
			refused := 0
			for _, command := range []string{"create", "scale", "add-nodes", "remove-nodes", "versions-add"} {
				for i := range (&Options{}).Flags(command) {
					o := &Options{}
					flag := o.Flags(command)[i]
					flag.fill()
					cloud.Ledger().Reset()
					err := s.needs(t.Context(), o, "csccm cks "+command, "")
					if flag.Since == "" || !semver.MustParse(version).LessThan(semver.MustParse(flag.Since)) {
						require.NoError(t, err, flag.Name)
						continue
					}

					refused++
					if op, ok := operations[command]; ok {
						err = s.Run(t.Context(), op, "demo", *o)
					} else {
						err = s.AddVersion(t.Context(), "1.35.0", o)
					}

					testenv.RequireRefusal(t, err, "--"+flag.Name+" (CloudStack "+flag.Since+"): nothing was changed",
						"upgrade CloudStack", report.ExitCheckFailed)
					for _, call := range cloud.Ledger().Calls() {
						require.Equal(t, "listCapabilities", call.Command, flag.Name)
					}
				}
			}

			if semver.MustParse(version).LessThan(semver.MustParse("4.21")) {
				require.GreaterOrEqual(t, refused, 13)
				_, err := s.CNIConfigs(t.Context())
				testenv.RequireRefusal(t, err, "too old for csccm cks cni (CloudStack 4.21)", "upgrade CloudStack",
					report.ExitCheckFailed)
				for _, op := range []Operation{AddNodes, RemoveNodes} {
					err := s.Run(t.Context(), op, "demo", Options{VMs: []string{"gpu-1"}})
					testenv.RequireRefusal(t, err, "too old for csccm cks "+op.name+" (CloudStack 4.21)",
						"upgrade CloudStack", report.ExitCheckFailed)
				}
			}
		})
	}
}

func TestReadRegistry(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text  string
		mode  os.FileMode
		wrong string
	}{
		"a name and a password": {`{"auths": {"https://r.example": {"username": "u", "password": "canary:1"}}}`,
			0o600, ""},
		"as docker login writes": {
			`{"auths": {"https://r.example": {"auth": "dTpjYW5hcnk6MQ=="}}, "credsStore": "x"}`,
			0o600,
			"",
		},
		"two registries": {`{"auths": {"a": {"auth": "dTpw"}, "b": {"auth": "dTpw"}}}`, 0o600,
			"exactly one registry"},
		"in a credential store": {`{"auths": {"https://r.example": {}}, "credsStore": "desktop"}`, 0o600,
			"exactly one registry"},
		"no base64": {`{"auths": {"https://r.example": {"auth": "canary!"}}}`, 0o600,
			"exactly one registry"},
		"no JSON":                  {`password=canary`, 0o600, "exactly one registry"},
		"readable by other people": {`{}`, 0o644, "other users may read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "config.json")
			require.NoError(t, os.WriteFile(file, []byte(tc.text), tc.mode))
			require.NoError(t, os.Chmod(file, tc.mode))
			r, err := readRegistry(file)
			if tc.wrong != "" {
				testenv.RequireRefusal(t, err, tc.wrong, "", report.ExitUsage)
				require.NotContains(t, err.Error(), "canary")
				return
			}
			require.NoError(t, err)
			require.Equal(t, cloudapi.Registry{URL: "https://r.example", Username: "u", Password: "canary:1"}, r)
		})
	}

	_, err := readRegistry("/no/such/file")
	testenv.RequireRefusal(t, err, "--registry-file: ", "", report.ExitUsage)
}

// CloudStack receives all parameters, and the password is in no output of csccm.
func TestCreateParameters(t *testing.T) {
	t.Parallel()
	f := cloudapi.CreateClusterRequest{
		ControlOfferingID: "c",
		EtcdOfferingID:    "e",
		WorkerTemplateID:  "w",
		EtcdNodes:         3,
		Hypervisor:        "KVM",
		CNIConfigID:       "n",
		ASNumber:          65000,
		CNIParams:         map[string]string{"PEER": "192.0.2.1"},
		Registry:          cloudapi.Registry{URL: "r", Username: "u", Password: "p"},
	}.Params()
	for name, want := range map[string]string{
		"nodeofferings[0].node":     "control",
		"nodeofferings[0].offering": "c",
		"nodeofferings[1].node":     "etcd",
		"nodeofferings[1].offering": "e",
		"nodetemplates[0].node":     "worker",
		"nodetemplates[0].template": "w",
		"etcdnodes":                 "3",
		"hypervisor":                "KVM",
		"cniconfigurationid":        "n",
		"asnumber":                  "65000",
		"cniconfigdetails[0].PEER":  "192.0.2.1",
		"dockerregistryurl":         "r",
		"dockerregistryusername":    "u",
		"dockerregistrypassword":    "p",
	} {
		require.Equal(t, want, f[name], name)
	}

	cloud := testenv.NewCKS(t)
	s, e := serviceOf(t, cloud)
	file := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t,
		os.WriteFile(file, []byte(`{"auths": {"https://r.example": {"username": "u", "password": "canary-1"}}}`),
			0o600))
	err := s.Run(t.Context(), Create, "demo", Options{Zone: "zone-1", Offering: "node", RegistryFile: file})
	// the simulator has no recording of this parameter
	require.ErrorContains(t, err, "does not implement the parameter dockerregistry")
	journal, jerr := os.ReadFile(e.Journal)
	require.NoError(t, jerr)
	require.Contains(t, e.Said(), "registry                  https://r.example, as u")
	require.NotContains(t, e.Said()+string(journal)+err.Error(), "canary")
}

func TestReadUserData(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text, wrong string
		want        []string
	}{
		"no variables": {"#cloud-config\nruncmd:\n- echo cni\n", "", nil},
		"variables": {
			"#cloud-config\nruncmd:\n- as: {{ AS_NUMBER }}\n- peer: {{ds.meta_data.PEER}} {{ AS_NUMBER }}\n",
			"",
			[]string{"AS_NUMBER", "PEER"},
		},
		"jinja": {"## template: jinja\n#cloud-config\n{% if A %}\nruncmd: [{{- B | upper }}]\n{% endif %}\n",
			"", []string{"B"}},
		"a part of a list": {
			"#cloud-config\n   - until [ -f /home/cloud/success ]; do sleep 5; done\n   - |\n     x: {{ PEER }}\n",
			"",
			[]string{"PEER"},
		},
		"metadata":    {"#cloud-config\nruncmd: [\"{{ ds.meta_data.local_hostname }}\"]\n", "", nil},
		"a manifest":  {"apiVersion: v1\nkind: ConfigMap\n", "its first line must be #cloud-config", nil},
		"a script":    {"#!/bin/sh\necho\n", "its first line must be #cloud-config", nil},
		"broken YAML": {"#cloud-config\nruncmd: [\n", "it is not YAML", nil},
		"nothing":     {"#cloud-config\n# todo\n", "it has no content", nil},
		"binary":      {"#cloud-config\n\x00", "not cloud-config", nil},
		"too long":    {"#cloud-config\n#" + strings.Repeat("x", 800_000), "and CloudStack takes 786432", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := readUserData([]byte(tc.text))
			if tc.wrong != "" {
				require.ErrorContains(t, err, tc.wrong)
				return
			}

			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}
