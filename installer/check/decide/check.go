// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decide has the catalogue of checks: what each needs to know, its texts, and the pure function that judges it.
// It reads nothing itself.
package decide

import (
	"cmp"
	_ "embed"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

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
	Preflight Phase = "preflight" // before the controller is installed
	Installed Phase = "installed"
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
	"NODE-002": {Reads: sources{Nodes, VMs}, Tries: sources{Places}, Judge: matches},
	"NODE-003": {Reads: sources{Nodes, VMs}, Tries: sources{Places}, Judge: providerIDs},
	"NODE-004": {Reads: sources{Nodes}, Tries: sources{VMs}, Judge: eachNode("%s waiting for the controller", uninitialised)},
	"NODE-005": {Reads: sources{Nodes}, Judge: eachNode("Pods are evicted from %s", evicting)},
	"NODE-006": {Reads: sources{Nodes, VMs}, Tries: sources{Controllers}, Judge: addresses},
	"NODE-007": {Reads: sources{Nodes, VMs}, Tries: sources{Volumes}, Judge: labels},
	"NODE-008": {Reads: sources{Nodes, VMs}, Tries: sources{Places}, Judge: doomed},
	"NODE-009": {Reads: sources{Nodes, VMs}, Judge: eachNode("the VMs of %s do not run", stopped)},
	"CCM-001":  {Reads: sources{Controllers, Pods}, Tries: sources{Releases}, Judge: podsReady},
	"CCM-002":  {Reads: sources{Leases, Controllers, Pods}, Judge: leader},
	"CCM-003":  {Reads: sources{Controllers, SystemPods, Nodes}, Judge: otherControllers},
	"CCM-004":  {Reads: sources{Answers}, Judge: answers},
	"CCM-005":  {Reads: sources{Events}, Tries: sources{Services, Nodes, VMs}, Judge: openErrors},
	"CCM-006":  {Reads: sources{Pods, Nodes}, Judge: placement},
	"CKS-001":  {Reads: sources{Distribution, Pods}, Tries: sources{Kubelets}, Judge: madeByCKS},
	"CKS-002":  {Reads: sources{CKS}, Judge: cksRunning},
	"CKS-003":  {Reads: sources{CKS}, Judge: cksCertificates},
	"CKS-004":  {Reads: sources{CKS}, Judge: cksChangeable},
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

// HintBase is where the documentation of the checks is.
const HintBase = version.Pages + "docs/checks.md"

// Hint is the address of a check's documentation.
func (c *Check) Hint() string { return HintBase + "#" + Anchor(c.Code) }

// Anchor is the part of the documentation's page for a code.
func Anchor(code string) string { return strings.ToLower(code) }

// RemedyInDocs is the remedy as a sentence begins.
func (c *Check) RemedyInDocs() string { return strings.ToUpper(c.Remedy[:1]) + c.Remedy[1:] }
