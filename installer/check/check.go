// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check runs the checks that csccm doctor, install and status share. checks.yaml and judges are the catalogue:
// what each check needs to know, its texts, and the pure function that judges it. The sources are read once in a run.
package check

import (
	"cmp"
	_ "embed"
	"io"
	"strings"
	"sync"
	"text/template"

	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/version"
)

// Env is the environment of checks. The caller sets its fields; of Setup those that are not read from the others.
type Env struct {
	Setup

	Cluster *cluster.Cluster
	// CloudStack is nil where no credentials are known; then NoCloud or NoCloudErr says why.
	CloudStack *cloudapi.Client
	// CloudConfig is what CloudStack was made from; nil with it.
	CloudConfig *cloudstack.Config
	// Style has the command lines in remedies work where this run works.
	Style report.Style
	// ProbePod lets NODE-001 run a Pod on nodes whose kubelet cannot be asked; nil for never. It is the
	// only thing that a check changes.
	ProbePod *kubelet.ProbeOptions
	// DialAPI connects to the address of a CKS cluster's API server; nil for the network.
	DialAPI ckscheck.Dial
	// Clock is nil for the real one.
	Clock clock.WithTicker
}

// DefaultSecretName holds the cloud-config; every provider for CloudStack, and CKS, name it so.
const DefaultSecretName = "cloudstack-secret" //nolint:gosec // a name

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
	"CCM-003":  {Reads: sources{Controllers, SystemPods, Nodes}, Judge: otherControllers},
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

// HintBase is where the documentation of the checks is.
const HintBase = version.Pages + "docs/checks.md"

// Hint is the address of a check's documentation.
func (c *Check) Hint() string { return HintBase + "#" + Anchor(c.Code) }

// Anchor is the part of the documentation's page for a code.
func Anchor(code string) string { return strings.ToLower(code) }

// RemedyInDocs is the remedy as a sentence begins.
func (c *Check) RemedyInDocs() string { return strings.ToUpper(c.Remedy[:1]) + c.Remedy[1:] }

// Codes are the codes of the catalogue, each with its title for shell completion.
func Codes() (out []string) {
	for _, c := range All() {
		out = append(out, c.Code+"\t"+c.Title)
	}
	return out
}

//go:embed checks.md.tmpl
var docs string

// WriteMarkdown writes the documentation of all checks: a section for each code, whose anchor is the code in lower
// case.
func WriteMarkdown(w io.Writer) error {
	return template.Must(template.New("checks").Funcs(template.FuncMap{"anchor": Anchor}).Parse(docs)).Execute(w, All())
}
