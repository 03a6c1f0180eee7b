// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/processnode"
	"github.com/csccm/csccm/test/testenv"
)

// The kinds of network in which a cluster can be.
const (
	isolated = "isolated network"
	vpc      = "VPC tier"
	project  = "project"
)

// place is a cluster whose nodes are VMs in one kind of network.
type place struct {
	*Run
	kind    string
	cluster *testenv.Cluster
	home    string
	nodes   map[string]*processnode.Node

	vms                    []world.VM
	networkID, networkName string
	projectID, project     string
	vpcID, aclID           string // aclID is the tier's ACL list
	installed              bool
	installedBy            string
}

// nodesOfPlace is the number of VMs that a cluster starts with.
const nodesOfPlace = 3

// nodeGrace is the time for which a node may miss heartbeats on a busy machine.
const nodeGrace = 25 * time.Second

// at returns the place of a kind, and creates it on first use.
func (r *Run) at(ctx context.Context, kind string) *place {
	p := r.places[kind]
	if p == nil {
		p = &place{Run: r, kind: kind, nodes: map[string]*processnode.Node{}}
		r.places[kind] = p
		begun := time.Now()
		if err := must.Catch(func() { p.make(ctx) }); err != nil {
			must.Fail("make a cluster (%s): %w", kind, err)
		}
		r.Say("a cluster of %d nodes is ready: %s (%s)", len(p.vms), kind, time.Since(begun).Round(time.Second))
	}
	must.Be(p.cluster != nil, "the %s could not be made; see the first scenario there", kind)
	return p
}

// only stops the clusters of all other places.
func (r *Run) only(kind string) {
	for k, p := range r.places {
		if k != kind {
			p.stop()
			delete(r.places, k)
		}
	}
}

func (p *place) make(ctx context.Context) {
	p.makeNetwork(ctx)
	p.home = must.Get(os.MkdirTemp(p.dir, "home-"))
	cluster := must.Get(testenv.StartCluster(ctx, testenv.ClusterOptions{
		Plane: plane.Options{Programs: p.Plane, Dir: p.dir, NodeGrace: nodeGrace}, Controller: p.Programs.Controller,
	}))
	if err := must.Catch(func() { p.join(ctx, cluster, p.vms...) }); err != nil {
		cluster.Stop()
		must.OK(err)
	}
	p.cluster = cluster
}

// join starts the nodes of VMs.
func (p *place) join(ctx context.Context, cluster *testenv.Cluster, vms ...world.VM) {
	for _, vm := range vms {
		p.nodes[vm.Name] = must.Get(cluster.Join(ctx, processnode.Options{Name: vm.Name, Address: vm.Address}))
	}
}

// makeNetwork creates the network and the VMs.
func (p *place) makeNetwork(ctx context.Context) {
	w, short := p.world, map[string]string{isolated: "iso", vpc: "vpc", project: "prj"}[p.kind]
	switch p.kind {
	case vpc: // with a tier, which has its own ACL list
		p.vpcID = w.New(ctx, "createVPC", short,
			world.Params{"zoneid": w.Offers.ZoneID, "vpcofferingid": w.Offers.VPC, "cidr": "10.64.0.0/16"})
		p.aclID = w.ACLList(ctx, short+"-acl", p.vpcID)
		p.networkName = short + "-tier"
		p.networkID = w.Tier(ctx, p.networkName, p.vpcID, p.aclID, w.Offers.Tier, 1)
	case project:
		p.project, p.projectID = w.Name(short), w.New(ctx, "createProject", short, world.Params{})
		fallthrough
	default:
		p.networkName = short + "-net"
		p.networkID = w.Network(ctx, p.networkName, w.Offers.Isolated, world.Params{}.Set("projectid", p.projectID))
	}

	p.networkName = w.Name(p.networkName)
	var names []string
	for i := range nodesOfPlace {
		names = append(names, fmt.Sprintf("%s-n%d", short, i+1))
	}

	p.vms = w.VMs(ctx, p.projectID, p.networkID, names...)
}

// names returns the names of the nodes, sorted.
func (p *place) names() []string {
	var all []string
	for _, vm := range p.vms {
		all = append(all, vm.Name)
	}
	slices.Sort(all)
	return all
}

func (p *place) stop() {
	if p.cluster != nil {
		p.cluster.Stop()
	}
}

const (
	stepLimit    = 4 * time.Minute  // limit of one wait, for slow routers
	quickLimit   = 75 * time.Second // limit of one wait, with a simulator
	interruptFor = 15 * time.Second
	secretName   = "cloudstack-secret" // #nosec G101 -- a name
	deployment   = "cloudstack-cloud-controller-manager"
	taint        = "node.cloudprovider.kubernetes.io/uninitialized"
	shutdown     = "node.cloudprovider.kubernetes.io/shutdown"
)

// csccm runs csccm without a terminal. An exit code other than 0 ends the scenario.
func (e *env) csccm(args ...string) {
	out, code := e.csccmCode(args...)
	must.Be(code == 0, "csccm %s ended with %d:\n%s", args[0], code, tail(out, 25))
}

// csccmCode is like csccm but returns the exit code.
func (e *env) csccmCode(args ...string) (out string, code int) {
	// #nosec G204 -- the product, with arguments of this suite
	cmd := exec.CommandContext(e.ctx, e.Programs.CLI, args...)
	cmd.Env = []string{"KUBECONFIG=" + e.cluster.Kubeconfig, "HOME=" + e.home, "PATH=" + os.Getenv("PATH"),
		"TMPDIR=" + e.dir}
	cmd.Dir = e.home
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptFor
	text, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		must.OK(err)
	}
	must.OK(context.Cause(e.ctx))
	return string(text), cmd.ProcessState.ExitCode()
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// secretFile writes a secret for csccm to a file in the run's folder, which is removed after the run.
func (p *place) secretFile(name, text string) string {
	path := filepath.Join(p.home, name)
	must.OK(os.WriteFile(path, []byte(text+"\n"), 0o600))
	return path
}

// Ways to install the controller in a cluster.
const (
	byRoot        = "root administrator"
	byDomainAdmin = "domain administrator"
	byKeys        = "keys"
)

// install runs csccm install.
func (e *env) install(how string, more ...string) {
	args := []string{
		"install", "--yes", "--api-url", e.productURL, "--zone", e.world.Offers.Zone, "--timeout", "8m",
		"--set", "hostNetwork=false", "--set", "bindAddress=$(POD_IP)", "--set", "replicaCount=1",
		"--set", "tenancy.trustedNamespaces={kube-system," + trusted + "}",
		// Each scenario has a namespace of its own, and the account gets addresses that another one has just released.
		"--set", "tenancy.addressReservation=0s",
	}
	args = append(args, e.login(how)...)
	if e.project != "" {
		args = append(args, "--project", e.project)
	}
	e.csccm(append(args, more...)...)
	e.installed, e.installedBy = true, how
	e.initialized(e.names()...)
}

// login returns the flags for a kind of credentials.
func (p *place) login(how string) []string {
	w := p.world
	if how == byKeys || !w.Root {
		return []string{"--api-key-file", p.secretFile("api.key", w.Keys.APIKey), "--secret-key-file",
			p.secretFile("secret.key", w.Keys.SecretKey)}
	}
	account := []string{"--account", w.Account}
	who := p.Who
	if how == byDomainAdmin {
		who = w.AdminLogin
	} else {
		account = append(account, "--domain", w.DomainPath)
	}
	if p.projectID != "" {
		account = []string{"--account", w.Name("prj"), "--create-account", "--role-name", w.Name("role"), "--domain",
			w.DomainPath}
	}
	return append(p.adminFlags(who), account...)
}

// adminFlags returns the flags for an administrator's keys or login.
func (p *place) adminFlags(who world.Credentials) []string {
	if who.APIKey != "" {
		return []string{"--admin-api-key-file", p.secretFile("admin-api.key", who.APIKey), "--admin-secret-key-file",
			p.secretFile("admin-secret.key", who.SecretKey)}
	}
	flags := []string{"--admin-user", who.User, "--admin-password-file", p.secretFile("admin-password", who.Password)}
	if who.Domain != "" {
		flags = append(flags, "--admin-domain", who.Domain)
	}
	return flags
}

func (e *env) uninstall(more ...string) {
	e.csccm(append([]string{"uninstall", "--yes", "--delete-secret"}, more...)...)
	e.installed = false
}

// until retries try until it succeeds or the time limit is reached.
func (e *env) until(what string, try func()) {
	limit := stepLimit
	if e.simulator != nil {
		limit = quickLimit
	}
	testenv.Await(e.ctx, limit, what, func(context.Context) { try() })
}

// initialized waits until the controller has initialised nodes.
func (e *env) initialized(names ...string) {
	for _, name := range names {
		e.until("node "+name+" to be initialised", func() {
			n := e.node(name)
			zone := n.Labels[corev1.LabelTopologyZone]
			must.Be(!slices.Contains(taints(n), taint) && n.Spec.ProviderID != "" && zone != "",
				"taints %v, provider ID %q, zone %q", n.Spec.Taints, n.Spec.ProviderID, zone)
		})
	}
}
