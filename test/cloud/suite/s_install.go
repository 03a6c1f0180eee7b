// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
)

// installBy installs with one kind of credentials; the doctor has nothing to find afterwards.
func installBy(how string) func(*env) string {
	return func(e *env) string {
		e.install(how)
		e.csccm("doctor", "-o", "short")
		return fmt.Sprintf("%d nodes initialised, csccm doctor finds nothing", len(e.vms))
	}
}

// uninstalled removes the controller; Services must be gone before.
func uninstalled(e *env) string {
	e.served("web")
	out, code := e.csccmCode("uninstall", "--yes", "--delete-secret")
	must.Be(code == 3 && strings.Contains(out, e.namespace+"/web"),
		"with a Service of type LoadBalancer it ended with %d, want 3 and the Service's name: %s", code, tail(out, 10))
	e.remove("web")
	e.uninstall()
	return "refused while a Service exists; then nothing is left in the cluster"
}

// orphans uninstalls with a load balancer in place and deletes its Service; the controller of the next install removes what is left.
func orphans(e *env) string {
	ip := e.served("web")
	e.uninstall("--orphan-load-balancers")
	must.Get(e.services().Patch(e.ctx, "web", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
	e.remove("web")
	all := e.addresses()
	must.Be(all[ip] != "", "address %s was to be left, the account has %v", ip, all)
	e.install(byRoot, "--set", "loadBalancers.cleanOrphans=true", "--set", "driftPeriod=10s")
	e.released(ip)
	return "the address and its rules were removed after two rounds"
}

// rotateKeys rotates twice; the keys of before are revoked, and the controller works on. Installing the same again changes nothing.
func rotateKeys(e *env) string {
	can(e.installedBy != byKeys, "the controller has the keys of the suite's own user")
	for i := range 2 {
		before := e.keysInSecret()
		e.csccm(append([]string{"rotate-keys", "--yes"}, e.adminFlags(e.Who)...)...)
		must.Be(before.APIKey != e.keysInSecret().APIKey, "the Secret has the same key as before")
		old := world.Connect(e.ctx, e.suiteURL, before)
		e.until("the old keys to be refused", func() {
			_, err := old.ListZones(e.ctx)
			must.Be(cloudstack.IsKind(err, cloudstack.KindAuth), "the answer is not 401: %v", err)
		})
		name := fmt.Sprintf("web%d", i)
		e.serves(e.served(name), "80")
		e.remove(name)
	}
	last := e.keysInSecret()
	e.install(e.installedBy)
	must.Be(e.keysInSecret().APIKey == last.APIKey, "the same install again has changed the keys")
	return "twice; old keys refused, Services made with the new ones; the same install again keeps them"
}

// keysInSecret are the controller's.
func (e *env) keysInSecret() world.Credentials {
	s := must.Get(e.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(e.ctx, secretName, metav1.GetOptions{}))
	c := must.Get(cloudconfig.Parse(bytes.NewReader(s.Data["cloud-config"])))
	return world.Credentials{APIKey: c.APIKey, SecretKey: c.SecretKey}
}

// migrate gives the rules of a Service names of the oldest form, lets csccm rename them, and takes it back.
func migrate(e *env) string {
	ip := e.served("web", "80,443")
	e.serves(ip, "80,443")
	modern := e.rules(ip)
	for _, r := range modern {
		e.do("updateLoadBalancerRule", world.Params{
			"id": r.ID, "name": strings.Replace(r.Name, "-tcp-", "-", 1), "protocol": r.Protocol, "algorithm": r.Algorithm,
		})
	}
	old := e.rules(ip)
	for _, c := range []struct {
		args []string
		want map[string]rule
	}{
		{[]string{"--dry-run"}, old},
		{[]string{"--yes"}, modern},
		{[]string{"--yes", "--undo"}, old},
		{[]string{"--yes"}, modern},
	} {
		e.csccm(append([]string{"migrate-rules"}, c.args...)...)
		now := e.rules(ip)
		must.Be(reflect.DeepEqual(now, c.want), "after migrate-rules %s the rules are %v, want %v", strings.Join(c.args, " "), now, c.want)
	}
	return "dry run, renamed, undone, renamed again; ids and members stayed"
}
