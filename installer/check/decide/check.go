// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decide has the catalogue of checks: what each needs to know, its texts, and the pure function that judges it.
// It reads nothing itself.
package decide

import (
	"cmp"
	"slices"
	"strings"

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

// Check is one entry of the catalogue.
type Check struct {
	Code, Title string
	Severity    Severity
	Phase       Phase // "" for both
	// Needs are codes of checks without whose pass this one cannot be judged.
	Needs []string
	// Reads are the facts without which the outcome is unknown; Tries are used where they can be read.
	Reads, Tries []Source
	// What, Why and Remedy make the documentation; Remedy is also shown with a result.
	What, Why, Remedy string
	// Judge decides by the facts of Reads and Tries alone.
	Judge func(*Facts) Finding
}

// Most checks need the API server; those of VMs also a place where VMs are.
var (
	needAPI = []string{"K8S-001"}
	needVMs = []string{"K8S-001", "CS-004"}
)

// All is the catalogue, in the order in which it is shown.
func All() []Check {
	return slices.Concat(clusterChecks(), helmChecks(), cloudStackChecks(), nodeChecks(), controllerChecks(), cksChecks(), loadBalancerChecks(), tenancyChecks(), storageChecks())
}

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

// RemedyInDocs is the remedy with placeholders that a reader replaces.
func (c *Check) RemedyInDocs() string {
	text := strings.NewReplacer(
		WordNamespace, "NAMESPACE", WordRelease, "RELEASE", WordNodeNames, "NODE",
		WordService, "-n NAMESPACE NAME", WordAPI, "https://HOST/client/api",
	).Replace(c.Remedy)
	if text == "" || strings.HasPrefix(text, "csccm ") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
