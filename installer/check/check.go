// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check has the checks that csccm doctor, install and status share. checks.yaml is the catalogue: a check's code,
// severity, what it reads, and its texts. The pure function of its code in judges decides. Package inspect reads and runs
// them.
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

// Check is one entry of the catalogue: a row of checks.yaml, with its function.
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
	Reads []Source `json:"reads"`
	Tries []Source `json:"tries"`
	// Judge decides by the facts of Reads and Tries alone.
	Judge func(*Facts) Finding `json:"-"`
}

// judges decide, by the facts that the row of checks.yaml names alone.
var judges = map[string]func(*Facts) Finding{
	"K8S-001":  reachable,
	"K8S-002":  serverVersion,
	"K8S-003":  permissions,
	"K8S-004":  clocks,
	"K8S-005":  podSecurity,
	"K8S-006":  eachNode("%s", unsupportedKubelet),
	"HELM-001": settledRelease,
	"HELM-002": conflicts,
	"HELM-003": drift,
	"HELM-004": leaks,
	"CS-001":   endpoint,
	"CS-002":   keys,
	"CS-003":   commands,
	"CS-004":   scope,
	"CS-005":   networks,
	"CS-006":   contact,
	"CS-007":   tls,
	"NODE-001": kubelets,
	"NODE-002": machines,
	"NODE-003": providerIDs,
	"NODE-004": eachNode("%s waiting for the controller", uninitialised),
	"NODE-005": eachNode("Pods are evicted from %s", evicting),
	"NODE-006": addresses,
	"NODE-007": labels,
	"NODE-008": doomed,
	"NODE-009": eachNode("the VMs of %s do not run", notRunning),
	"CCM-001":  podsReady,
	"CCM-002":  leader,
	"CCM-003":  otherControllers,
	"CCM-004":  answers,
	"CCM-005":  openErrors,
	"CCM-006":  placement,
	"CCM-007":  states,
	"CKS-001":  madeByCKS,
	"CKS-002":  ofCKS("all VMs of the cluster run, and their nodes are Ready", "", ckscheck.Running),
	"CKS-003":  ofCKS("the API server's certificate is valid for more than 30 days", ckscheck.SubjectCertificate, ckscheck.Certificates),
	"CKS-004":  ofCKS("nothing known is in the way of scaling and upgrading the cluster", ckscheck.SubjectFirewall, ckscheck.Changeable),
	"CKS-005":  cksLeftovers,
	"LB-001":   services,
	"LB-002":   ruleNames,
	"LB-003":   orphans,
	"LB-004":   unowned,
	"TEN-001":  admission,
	"TEN-002":  policy,
	"TEN-003":  shared,
	"TEN-004":  records,
	"STOR-001": ofStorage(driverKeys),
	"STOR-002": ofStorage(driverTopology),
}

//go:embed checks.yaml
var catalogue []byte

// All is the catalogue, in the order in which it is shown.
var All = sync.OnceValue(func() (out []Check) {
	if err := yaml.UnmarshalStrict(catalogue, &out); err != nil {
		panic(err) // it is embedded
	}
	for i := range out {
		out[i].Judge = judges[out[i].Code]
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
