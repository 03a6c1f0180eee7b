// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check has the checks that csccm doctor, install and status share. checks.yaml and judges are the catalogue:
// what each check needs to know, its texts, and the pure function that judges it. Package inspect reads and runs them.
package check

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/pkg/typo"
	"github.com/csccm/csccm/pkg/version"
)

// Severity says how bad it is when a check does not pass.
type Severity string

// Severities, from the worst.
const (
	SeverityFatal   Severity = "fatal" // nothing else can be judged or done
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Phase is the situation a check makes sense in.
type Phase string

// Phases.
const (
	PhasePreflight Phase = "preflight" // before the controller is installed
	PhaseInstalled Phase = "installed"
)

// Check is one entry of the catalogue. checks.yaml has its texts, judges what it reads and how it decides.
type Check struct {
	Code     string   `json:"code"`
	Title    string   `json:"title"`
	Severity Severity `json:"severity"`
	Phase    Phase    `json:"phase"` // "" for both
	// Needs are codes of checks without whose pass this one cannot be judged.
	Needs []string `json:"needs"`
	// What, Why and Remedy make the documentation; Remedy is also shown with a result.
	What   string `json:"what"`
	Why    string `json:"why"`
	Remedy string `json:"remedy"`
	// Reads are the facts without which the outcome is unknown; Tries are used where they can be read.
	Reads []Source `json:"-"`
	Tries []Source `json:"-"`
	// Judge decides by the facts of Reads and Tries alone.
	Judge func(*Facts) Finding `json:"-"`
}

type sources = []Source

var judges = map[string]Check{
	"K8S-001":  {Tries: sources{Version}, Judge: reachable},
	"K8S-002":  {Reads: sources{Version}, Judge: serverVersion},
	"K8S-003":  {Reads: sources{Rights, Drift}, Judge: permissions},
	"K8S-004":  {Reads: sources{Nodes}, Tries: sources{Heartbeats, Capabilities}, Judge: clocks},
	"K8S-005":  {Tries: sources{Namespace, Releases}, Judge: podSecurity},
	"K8S-006":  {Reads: sources{Version, Nodes}, Judge: eachNode("%s", unsupportedKubelet)},
	"HELM-001": {Reads: sources{Releases}, Judge: settledRelease},
	"HELM-002": {Reads: sources{Drift}, Judge: conflicts},
	"HELM-003": {Reads: sources{Releases, Drift}, Judge: drift},
	"HELM-004": {Reads: sources{Releases}, Judge: leaks},
	"CS-001":   {Tries: sources{Capabilities}, Judge: endpoint},
	"CS-002":   {Tries: sources{Capabilities, APIs, Users}, Judge: keys},
	"CS-003":   {Tries: sources{APIs}, Judge: commands},
	"CS-004":   {Tries: sources{Project, Zones, VMs, Places}, Judge: scope},
	"CS-005":   {Reads: sources{Nodes, VMs, Networks}, Judge: networks},
	"CS-006":   {Tries: sources{Logs}, Judge: contact},
	"CS-007":   {Judge: tls},
	"NODE-001": {Reads: sources{Kubelets}, Tries: sources{Pods}, Judge: kubelets},
	"NODE-002": {Reads: sources{Nodes, VMs}, Tries: sources{Places}, Judge: machines},
	"NODE-003": {Reads: sources{Nodes, VMs}, Tries: sources{Places}, Judge: providerIDs},
	"NODE-004": {Reads: sources{Nodes}, Tries: sources{VMs}, Judge: eachNode("%s waiting for the controller", uninitialised)},
	"NODE-005": {Reads: sources{Nodes}, Judge: eachNode("Pods are evicted from %s", evicting)},
	"NODE-006": {Reads: sources{Nodes, VMs}, Tries: sources{Controllers}, Judge: addresses},
	"NODE-007": {Reads: sources{Nodes, VMs}, Tries: sources{Volumes}, Judge: labels},
	"NODE-008": {Reads: sources{Nodes, VMs}, Tries: sources{Places}, Judge: doomed},
	"NODE-009": {Reads: sources{Nodes, VMs}, Judge: eachNode("the VMs of %s do not run", notRunning)},
	"CCM-001":  {Reads: sources{Controllers, Pods}, Tries: sources{Releases}, Judge: podsReady},
	"CCM-002":  {Reads: sources{Leases, Controllers, Pods}, Judge: leader},
	"CCM-003":  {Reads: sources{Controllers, SystemPods, Nodes}, Tries: sources{Services, Leases}, Judge: otherControllers},
	"CCM-004":  {Reads: sources{Answers}, Judge: answers},
	"CCM-005":  {Reads: sources{Events}, Tries: sources{Services, Nodes, VMs}, Judge: openErrors},
	"CCM-006":  {Reads: sources{Pods, Nodes}, Judge: placement},
	"CKS-001":  {Reads: sources{Distribution, Pods}, Tries: sources{Kubelets}, Judge: madeByCKS},
	"CKS-002":  {Reads: sources{CKS}, Judge: ofCKS("all VMs of the cluster run, and their nodes are Ready", "", ckscheck.Running)},
	"CKS-003":  {Reads: sources{CKS}, Judge: ofCKS("the API server's certificate is valid for more than 30 days", ckscheck.SubjectCertificate, ckscheck.Certificates)},
	"CKS-004":  {Reads: sources{CKS}, Judge: ofCKS("nothing known is in the way of scaling and upgrading the cluster", ckscheck.SubjectFirewall, ckscheck.Changeable)},
	"CKS-005":  {Reads: sources{CKS, Addresses, AllRules, Services, ClusterIDs}, Judge: cksLeftovers},
	"LB-001":   {Reads: sources{Nodes, VMs, Services, Balancers, Plans}, Tries: sources{Forwards, Logs, Quota}, Judge: services},
	"LB-002":   {Reads: sources{Nodes, VMs, Services, Balancers}, Judge: ruleNames},
	"LB-003":   {Reads: sources{Nodes, VMs, Services, Balancers, Addresses, ClusterIDs}, Judge: orphans},
	"TEN-001":  {Reads: sources{Admission, Controllers}, Judge: admission},
	"TEN-002":  {Reads: sources{Services, Controllers}, Tries: sources{Namespaces, Addresses, AllRules, ClusterIDs}, Judge: policy},
	"TEN-003":  {Reads: sources{Nodes, VMs, Services, Balancers, Addresses}, Judge: shared},
	"TEN-004":  {Reads: sources{Services, Addresses, ClusterIDs}, Tries: sources{APIs}, Judge: records},
	"STOR-001": {Reads: sources{Controllers, Volumes, Driver}, Judge: ofStorage(driverKeys)},
	"STOR-002": {Reads: sources{Controllers, Volumes, Driver, Nodes, VMs}, Judge: ofStorage(driverTopology)},
}

//go:embed checks.yaml
var catalogue []byte

// All is the catalogue, in the order in which it is shown.
var All = sync.OnceValue(func() (out []Check) {
	if err := yaml.UnmarshalStrict(catalogue, &out); err != nil {
		panic(err) // it is embedded
	}
	for i := range out {
		j := judges[out[i].Code]
		out[i].Reads, out[i].Tries, out[i].Judge = j.Reads, j.Tries, j.Judge
	}
	return out
})

var categories = map[string]string{
	"K8S": "Kubernetes", "HELM": "Helm release", "CS": "CloudStack", "NODE": "Nodes", "CCM": "Controller", "CKS": "Controller",
	"LB": "Load balancers", "TEN": "Tenants", "STOR": "Storage",
}

// Category is the heading under which the check is shown.
func (c *Check) Category() string {
	group, _, _ := strings.Cut(c.Code, "-")
	return cmp.Or(categories[group], group)
}

// In reports whether the check makes sense in a phase; "" stands for both.
func (c *Check) In(p Phase) bool { return p == "" || c.Phase == "" || c.Phase == p }

// Selection says which checks to run and how.
type Selection struct {
	// Phase "" means all phases.
	Phase Phase
	// Only and Skip hold codes, in any case; Only empty means all. A code may be a prefix up to a
	// dash ("NODE" for all NODE checks).
	Only, Skip []string
	// AllMembers reads the members of every load balancer rule. Else, where that takes many calls, a sample shows
	// whether it is needed. So does Only with LB-001 in it.
	AllMembers bool
	// Timeout is that of reading one source; 0 means 20 s.
	Timeout time.Duration
}

// Validate names a code that is in no catalogue.
func (s Selection) Validate() error {
	var known []string
	for _, c := range All() {
		group, _, _ := strings.Cut(c.Code, "-")
		known = append(known, group, c.Code)
	}
	for _, code := range slices.Concat(s.Only, s.Skip) {
		if !slices.Contains(known, strings.ToUpper(code)) {
			return fmt.Errorf("check %q is not known, did you mean %s?", code, strings.Join(typo.Nearest(code, known, math.MaxInt), " or "))
		}
	}
	return nil
}

// Matches reports whether one of the patterns is a code or its group.
func Matches(patterns []string, code string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		p = strings.ToUpper(p)
		return p == code || strings.HasPrefix(code, p+"-")
	})
}

// Chooses reports whether a check was selected itself.
func (s Selection) Chooses(c *Check) bool {
	return c.In(s.Phase) && (len(s.Only) == 0 || Matches(s.Only, c.Code)) && !Matches(s.Skip, c.Code)
}

// Plan returns the checks of a selection, and those that they need, in the catalogue's order. A check needs earlier
// ones only. What the user skips on purpose counts as passed.
func (s Selection) Plan(catalogue []Check) (out []Check) {
	var needed []string
	for _, c := range slices.Backward(catalogue) {
		if s.Chooses(&c) || slices.Contains(needed, c.Code) && !Matches(s.Skip, c.Code) {
			needed = append(needed, c.Needs...)
			out = append(out, c)
		}
	}
	slices.Reverse(out)
	return out
}

// HintBase is where the documentation of the checks is.
const HintBase = version.Pages + "docs/checks.md"

// Hint is the address of a check's documentation.
func (c *Check) Hint() string { return HintBase + "#" + Anchor(c.Code) }

// Anchor is the part of the documentation's page for a code.
func Anchor(code string) string { return strings.ToLower(code) }

// Codes are the codes of the catalogue, each with its title for shell completion.
func Codes() (out []string) {
	for _, c := range All() {
		out = append(out, c.Code+"\t"+c.Title)
	}
	return out
}
