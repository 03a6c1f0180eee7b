// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/pkg/simulator/internal/dump"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// populate makes something of every kind by API calls, for the account and for a project.
func (h *env) populate() {
	h.t.Helper()
	h.set("net", h.netID("k8s-net"), "ip", h.legacyIP()).play(`
		k8s-owner listVirtualMachines > vm
		k8s-owner associateIpAddress networkid={net}
		k8s-owner createLoadBalancerRule publicipid={ip} name=dumped algorithm=source publicport=8443 privateport=30443 protocol=tcp-proxy \
			cidrlist=10.0.0.0/8,192.168.0.0/16 > rule
		k8s-owner assignToLoadBalancerRule id={rule} virtualmachineids={vm}
		k8s-owner createTags resourceids={rule} resourcetype=LoadBalancer tags[0].key=b tags[0].value=2 tags[1].key=a tags[1].value=1
		k8s-owner createLoadBalancerRule publicipid={ip} name=gone algorithm=source publicport=9000 privateport=9000 > gone
		k8s-owner deleteLoadBalancerRule id={gone}
		k8s-owner stopVirtualMachine id={vm}
		root createRole name=minimal type=User > role
		root createRolePermission roleid={role} rule=list* permission=allow
		root createDomain name=more-domain
		root updateResourceLimit account=k8s domainid={ROOT} resourcetype=0 max=77
		root createProject account=k8s domainid={ROOT} name=more displaytext=more > project
	`)
	project := h.vars["project"]
	h.everything("more", "account", "k8s", "domainid", h.vars["ROOT"])
	h.everything("team", "projectid", project)
}

// answers calls every list that needs no parameter, as several callers.
func (h *env) answers(skip ...string) map[string]string {
	h.t.Helper()
	commands, err := loadCommands()
	require.NoError(h.t, err)
	out := map[string]string{}
	for i := range commands.cat.APIs {
		a := &commands.cat.APIs[i]
		if commands.byName[a.Name] == nil || !strings.HasPrefix(a.Name, "list") || a.Name == "listApis" || a.Name == "listManagementServersMetrics" { // figures of the machine
			continue
		}
		for _, args := range [][]string{{}, {"listall", "true"}, {"projectid", "-1"}, {"listall", "true", "allocatedonly", "false"}} {
			out[fmt.Sprint(a.Name, args)] = h.root(a.Name, args...).raw
			for _, u := range skip {
				out[fmt.Sprint(u, a.Name, args)] = h.call(u, a.Name, args...).raw
			}
		}
	}
	return out
}

// randomText is what differs from one call to the next on any server.
var randomText = regexp.MustCompile(`for user id \[[0-9a-f-]+\]`)

// TestDump loads a dump and compares the answers of every list.
func TestDump(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	h.populate()
	defer h.sim.Inject(Fault{Command: "create*", Kind: FaultJobFails, Nth: 3})()
	text, err := h.sim.DumpYAML(dump.Options{Secrets: true})
	require.NoError(t, err)
	w, err := LoadWorld(bytes.NewReader(text))
	require.NoError(t, err)
	twin := start(t, Options{World: w, Clock: h.clock})
	twin.clock = h.clock
	require.Equal(t, "create*:job-fails:nth=3", twin.sim.Faults()[0].Fault)

	want, got := h.answers(owner), twin.answers(owner)
	require.Greater(t, len(want), 50)
	for k := range want {
		require.Equal(t, randomText.ReplaceAllString(want[k], ""), randomText.ReplaceAllString(got[k], ""), k)
	}
	again, err := twin.sim.DumpYAML(dump.Options{Secrets: true})
	require.NoError(t, err)
	require.Equal(t, string(text), string(again), "a dump of the dump")
	require.NotContains(t, string(text), "password: ")

	// The twin goes on as the original would: new ids follow the old ones, rules of both keep their links.
	for _, s := range []*env{h, twin} {
		s.sim.faults.Remove(0)
		s.done(owner, s.call(owner, "disassociateIpAddress", "id", s.legacyIP()))
	}
	require.JSONEq(t, h.call(owner, "listLoadBalancerRules").raw, twin.call(owner, "listLoadBalancerRules").raw)
	require.JSONEq(t, h.call(owner, "listFirewallRules").raw, twin.call(owner, "listFirewallRules").raw)

	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("world.schema.json", any(readSchema(t))))
	schema, err := c.Compile("world.schema.json")
	require.NoError(t, err)
	var doc any
	for _, text := range [][]byte{text, ExampleYAML()} {
		doc = nil
		require.NoError(t, yaml.Unmarshal(text, &doc))
		require.NoError(t, schema.Validate(doc))
	}
	doc.(map[string]any)["zonez"] = []any{}
	require.Error(t, schema.Validate(doc), "an unknown key must not fit")
}

func TestDumpWithoutSecrets(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	h.populate()
	key, secret, _ := h.sim.Keys(owner)
	w, err := h.sim.Dump(dump.Options{})
	require.NoError(t, err)
	text, err := yaml.Marshal(w)
	require.NoError(t, err)
	require.NotContains(t, string(text), key)
	require.NotContains(t, string(text), secret)
	twin := start(t, Options{World: w, Clock: h.clock})
	_, _, ok := twin.sim.Keys(owner)
	require.False(t, ok)
	login, _ := twin.login("admin", "password", "")
	require.Equal(t, wire.CodeAccount, login.status, "passwords are not in a dump")
	require.Equal(t, h.root("listVirtualMachines", "listall", "true").raw, twin.root("listVirtualMachines", "listall", "true").raw)
}

func TestDumpErrors(t *testing.T) {
	t.Parallel()
	h := start(t, Options{World: FreshWorld()})
	text, err := h.sim.DumpYAML(dump.Options{})
	require.NoError(t, err)
	for name, tc := range map[string]struct{ old, new, want string }{
		"unknown list":   {"  zones:\n", "  zonez:\n", `there is no list "zonez"`},
		"unknown member": {"guestCIDR:", "guestCIDRs:", `no member "guestCIDRs"`},
		"dangling":       {"zone: zones/1", "zone: zones/7", "zones/7 refers to no zone"},
		"other kind":     {"zone: zones/1", "zone: hosts/1", "hosts/1 refers to no zone"},
		"wrong type":     {"enabled: true", "enabled: often", "often is no bool"},
		"both":           {"rows:\n", "zones: [{name: z, publicRanges: [10.0.0.1]}]\nrows:\n", "other objects beside them"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := strings.Replace(string(text), tc.old, tc.new, 1)
			require.NotEqual(t, string(text), changed)
			_, err := LoadWorld(strings.NewReader(changed))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// TestSecretFieldsAreMarked wants a dump tag on every field whose name speaks of a secret.
func TestSecretFieldsAreMarked(t *testing.T) {
	t.Parallel()
	secret := regexp.MustCompile(`(?i)password|secret|private|apikey|kubeconfig|passphrase`)
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		switch typ.Kind() { //nolint:exhaustive // the others have no fields
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(typ.Elem())
		case reflect.Struct:
			if seen[typ] || typ.PkgPath() != reflect.TypeFor[store.State]().PkgPath() {
				return
			}
			seen[typ] = true
			for i := range typ.NumField() {
				f := typ.Field(i)
				rule := dump.DumpRule(typ, &f)
				if rule == dump.DumpNot {
					continue
				}
				if f.Type.Kind() == reflect.String && secret.MatchString(f.Name) {
					require.NotEmpty(t, rule, "%s.%s: enter it into dumpFields as a secret, or as harmless", typ.Name(), f.Name)
				}
				visit(f.Type)
			}
		}
	}
	visit(reflect.TypeFor[store.State]())
}
