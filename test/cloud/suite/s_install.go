// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
